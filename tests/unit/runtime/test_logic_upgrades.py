"""A decider's behaviour changes on a live log: no decision of today's logic is lost, or awaited without end."""

from __future__ import annotations

import pytest
from tests.harness.memory_log import MemoryLog
from tests.harness.system.rig import Rig
from tests.harness.upgrade_contract import LAYOUT, older, upgrade
from tests.harness.upgrade_stories import BESIDE_EACH_OTHER, CASES
from tests.harness.waiting import until

from steepest.events import cluster as c
from steepest.policies.deciders import CLUSTER_DECIDERS, STREAM_DECIDERS
from steepest.policies.placement.placer import Placer
from steepest.runtime.service import Service
from steepest.view.state import Phase


def test_every_decider_has_a_story() -> None:
    """Each decider has a case for its upgrade."""
    assert {case.decider for case in CASES.values()} == {*CLUSTER_DECIDERS, *STREAM_DECIDERS}


@pytest.mark.parametrize("name", CASES)
async def test_the_new_logic_decides_what_the_old_passed_over(name: str) -> None:
    """One process after the other: what has an id inside of what stands in the log is decided again beyond it."""
    log = MemoryLog(LAYOUT.partitions())
    await upgrade(CASES[name], log.reopen, rolling=False)


@pytest.mark.parametrize("name", BESIDE_EACH_OTHER)
async def test_old_and_new_logic_beside_each_other(name: str) -> None:
    """The first decision on the log has the id; the other process's is decided again, and no process waits for it."""
    log = MemoryLog(LAYOUT.partitions())
    await upgrade(CASES[name], log.reopen, rolling=True)


@pytest.mark.parametrize("overlap", [False, True], ids=["one after the other", "beside each other"])
async def test_jobs_that_were_stranded_end_and_give_back_what_they_held(rig: Rig, *, overlap: bool) -> None:
    """An older placer says of no job that it is over or starts again; under today's all jobs end, and all nodes are free."""
    tongue_tied = older(Placer, lambda event: isinstance(event, c.JobEnded | c.RetryPlanned) and event.job != "d")
    rig.start("worker-monitor", "migrator", rig.beats())
    old = rig.start(Service(name="placer", cluster_deciders=(tongue_tied,)))
    await until(old.runtime.health.is_ready)
    for job, arguments in {"a": ("--steps=5",), "b": ("--steps=5", "--exit=1"), "d": ("--steps=9",)}.items():
        await rig.submit(job, *arguments, retries=1)
    await until(lambda: "d" in old.view.jobs and old.view.jobs["d"].phase is Phase.ENDED)
    assert [old.view.jobs[job].phase for job in "ab"] == [Phase.STOPPED, Phase.STOPPED]

    if not overlap:
        await old.stop()
    new = rig.start("placer")
    await rig.submit("e", "--steps=5")
    await until(lambda: len(new.view.jobs) == 4 and all(job.phase is Phase.ENDED for job in new.view.jobs))

    assert [node.free == node.capacity for node in new.view.nodes] == [True, True]
    assert {event.job: event.outcome for event in await rig.of_type(c.JobEnded)}["b"] is c.Outcome.FAILED
    assert await rig.broken() == []

"""Where reservations fill a node: which job gives way, which comes, and that all end in time; in virtual time."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harness.system.fake_training import PROGRAM
from tests.harness.system.rig import Rig
from tests.harness.virtual_time import run_virtually
from tests.harness.waiting import until

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, PreemptionLimits
from steepest.events.received import Received
from steepest.policies.named import under
from steepest.policies.placement.preemption import suspension
from steepest.replay.replay import Replay
from steepest.view.state import Phase

SERVICES = ("log-collector", "categorizer", "worker-monitor", "placer", "limit-planner", "migrator", "resizer")
FILLING = {"a": 200, "b": 200, "c": 200, "long": 400}
"""Steps of half a second of CPU; these four fill the node."""

FAIR_ENDS_S = {"a": 400, "b": 400, "c": 400, "long": 510}
"""When they would end under fair sharing, where the short job begins at the first of these ends."""

SHORT = "short"

LATE = 1.05


def spec_of(steps: int, *options: str, **fields: Any) -> c.JobSpec:
    """A job that reserves a quarter of the node and can use all of it."""
    command = (PROGRAM, "--burn", "--step-s", "0.5", "--steps", str(steps), "--flat-after", str(steps // 10), *options)
    return c.JobSpec(command=command, steps=steps, requests=Resources(cpu_m=250), **fields)


async def suspended_once(rig: Rig, process: Any, spec: c.JobSpec) -> None:
    """Run a job, suspend it, and cancel it once it was resumed."""
    await rig.append(c.JobSubmitted(job="before", request="submit-before", spec=spec))
    await until(lambda: process.view.jobs.get("before") is not None, within_s=120)
    job = process.view.jobs["before"]
    await until(lambda: (job.progress.step or 0) >= 40, "that it may be suspended", within_s=300)
    await rig.append(suspension(job, None, "stop", c.Because(rule="a test")))
    await until(lambda: job.incarnation > 1, "its resumption", within_s=20_000)
    await rig.append(c.JobCancelRequested(job="before", request="cancel-before"))
    await until(lambda: job.phase is Phase.ENDED, "its end", within_s=1_000)


async def played(
    folder: Path, late: Mapping[str, c.JobSpec], limits: PreemptionLimits, saves_s: float | None = None
) -> tuple[list[Received[Any]], Sequence[str], int]:
    """The log of all jobs to their ends, what is broken, and how many decisions replay differently.

    Where ``saves_s`` is given, a job of their model was suspended before, and took so long to save.
    """
    async with contextlib.aclosing(Rig(folder, {"n": 1000})) as rig:
        process = rig.start(*SERVICES)
        await rig.configure(msgspec.structs.replace(under("steepest", PoolParameters()), preemption=limits))
        model = {} if saves_s is None else {"model": "m"}
        if saves_s is not None:
            await suspended_once(rig, process, spec_of(10_000, "--save-s", str(saves_s), model="m"))
        for name, steps in FILLING.items():
            await rig.append(c.JobSubmitted(job=name, request=f"submit-{name}", spec=spec_of(steps, **model)))
        await until(lambda: any(job.limit is not None for job in process.view.jobs), "a limit", within_s=300)
        for name, spec in late.items():
            await rig.append(c.JobSubmitted(job=name, request=f"submit-{name}", spec=spec))
        jobs = len(FILLING) + len(late) + (saves_s is not None)
        await until(lambda: len(process.view.jobs) == jobs, within_s=120)
        await until(lambda: all(job.phase is Phase.ENDED for job in process.view.jobs), "the ends", within_s=20_000)
        await process.stop()
        report = await Replay(rig.log).run()
        return await rig.events(), await rig.broken(), report.differences


def positions(log: Sequence[Received[Any]], kind: type[Any], job: str) -> list[int]:
    """Where a job's events of a type stand in the log."""
    return [at for at, one in enumerate(log) if isinstance(one.event, kind) and one.event.job == job]


def test_the_last_in_line_gives_way_and_ends_in_time(tmp_path: Path) -> None:
    """A short job begins before any other has ended; the longest gave way for it, and none is later than promised."""
    limits = PreemptionLimits(min_run_ms=5_000)
    log, broken, differences = run_virtually(played(tmp_path, {SHORT: spec_of(20)}, limits))

    assert broken == []
    assert differences == 0
    ends = {one.event.job: one for one in log if isinstance(one.event, c.JobEnded)}
    assert {one.event.outcome for one in ends.values()} == {c.Outcome.FINISHED}
    suspension = log[positions(log, c.TransitionPlanned, "long")[0]].event
    assert suspension.room_for == SHORT
    assert suspension.because.standing is not None
    assert log[positions(log, c.JobPlaced, SHORT)[0]].at_ms < min(end.at_ms for end in ends.values())
    began_ms = log[0].at_ms
    for job in FILLING:
        assert ends[job].at_ms - began_ms <= LATE * 1000 * FAIR_ENDS_S[job]


def test_no_job_gives_way_to_a_less_urgent_one(tmp_path: Path) -> None:
    """It waits until one has ended."""
    limits = PreemptionLimits(min_run_ms=5_000)
    log, broken, _ = run_virtually(played(tmp_path, {SHORT: spec_of(20, priority=-1)}, limits))
    assert broken == []
    assert not [one for one in log if isinstance(one.event, c.JobSuspended)]


def test_jobs_that_are_too_large_keep_no_other_from_the_place_of_the_last_in_line(tmp_path: Path) -> None:
    """More of them than are looked at were submitted before it, and no single job leaves enough for one of them."""
    large = {f"large-{n:02}": msgspec.structs.replace(spec_of(1), requests=Resources(cpu_m=600 + n)) for n in range(20)}
    log, broken, _ = run_virtually(played(tmp_path, {**large, SHORT: spec_of(20)}, PreemptionLimits(min_run_ms=5_000)))
    assert broken == []
    assert [one.event.room_for for one in log if isinstance(one.event, c.TransitionPlanned)][:1] == [SHORT]


@pytest.mark.parametrize(("saves_s", "suspended"), [(1.0, True), (55.0, False)])
def test_what_suspensions_took_counts(tmp_path: Path, saves_s: float, *, suspended: bool) -> None:
    """A job whose model takes so long to save that it would be late does not give way."""
    limits = PreemptionLimits(min_run_ms=5_000)
    log, broken, _ = run_virtually(played(tmp_path, {SHORT: spec_of(20)}, limits, saves_s))
    assert broken == []
    gave_way = [one for one in log if isinstance(one.event, c.TransitionPlanned) and one.event.job != "before"]
    assert bool(gave_way) is suspended


def test_none_is_suspended_where_the_pool_allows_none(tmp_path: Path) -> None:
    """The pool's limits of suspensions hold for every policy."""
    limits = PreemptionLimits(min_run_ms=5_000, max_suspensions=0)
    log, broken, _ = run_virtually(played(tmp_path, {SHORT: spec_of(20)}, limits))
    assert broken == []
    assert not [one for one in log if isinstance(one.event, c.TransitionPlanned)]

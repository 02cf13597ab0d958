"""Hostile jobs beside innocent ones on the real system with emulated nodes: they harm only themselves."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from tests.harness.system.running_system import PATIENCE_S, RunningSystem
from tests.hostile.cases import TRIES, innocent

from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import StateFolder
from steepest.cli.pool.follow import first
from steepest.cli.pool.stored_pool import records_to_end
from steepest.cli.pool.user_requests import append, asking, new_request
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.loss import JobUnwatched, LossEvent, LossReported
from steepest.events.received import Received
from steepest.runtime.decode import received
from steepest.runtime.layout import DEAD_LETTERS

INNOCENTS = {"innocent-1": 50, "innocent-2": 50}
STEP_S = 0.1
HOSTILE_S = 2.0
MEMORY_MIB_MOST = 500
DESCRIPTORS_MOST = 250


@pytest.fixture
def system(tmp_path: Path) -> Iterator[RunningSystem]:
    """A system with room for all of them."""
    running = RunningSystem(
        tmp_path / "state", "--node", "a=4", "--node", "b=4", "--metrics", "0", "--heartbeat", "300ms"
    )
    running.start()
    yield running
    running.end()


async def submit_all(state: Path) -> None:
    """Submit all jobs, with the innocent ones between the hostile ones."""
    folder = StateFolder(state)
    volumes = folder.cluster / "jobs"
    specs = [
        (name, one.command(HOSTILE_S), str(volumes / name / "checkpoints" / "metrics") if one.has_metrics else "")
        for name, one in TRIES.items()
    ]
    for name, steps in INNOCENTS.items():
        specs.insert(len(specs) // 2, (name, innocent(steps, STEP_S), ""))
    async with asking(read_settings({"state_dir": folder.root})) as (log, pool):
        for name, command, metrics in specs:
            spec = c.JobSpec(command=command, requests=Resources(cpu_m=100), metrics_folder=metrics)
            await append(log, pool, c.JobSubmitted(job=name, request=new_request(), spec=spec))


async def losses_of(state: Path) -> dict[str, list[int | None]]:
    """The steps that are on the log once all innocent ones are, by job; every record must be readable."""
    folder = StateFolder(state)
    found: dict[str, list[int | None]] = {}
    unread = {*INNOCENTS}

    def all_read(one: Received[LossEvent]) -> bool | None:
        if isinstance(one.event, JobUnwatched):
            unread.discard(one.event.job)
        return not unread or None

    async with asking(read_settings({"state_dir": folder.root})) as (log, pool):
        partitions = pool.installation.layout.of_topic("loss")
        assert await first(log, dict.fromkeys(partitions, 0), all_read, PATIENCE_S), (
            f"{unread} are not read to their end"
        )
        for at in partitions:
            async for record in records_to_end(log, at):
                event = received(record).event
                if isinstance(event, LossReported):
                    found.setdefault(event.job, []).append(event.step)
        letters = [received(record).event async for record in records_to_end(log, DEAD_LETTERS)]
    assert [letter for letter in letters if not isinstance(letter, c.LogOpened)] == []
    return found


def get(system: RunningSystem, page: str) -> int:
    """The status of a probe."""
    port = int(system.await_line("metrics on").removesuffix("/metrics").rpartition(":")[2])
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", page)
        return connection.getresponse().status


@pytest.mark.slow
def test_hostile_jobs_harm_only_themselves(system: RunningSystem) -> None:
    """Innocent jobs finish with all their losses; every job ends; the system answers, stays small, and stops on request."""
    asyncio.run(submit_all(system.state))
    for name in INNOCENTS:
        assert system.await_end(name).outcome is c.Outcome.FINISHED
    assert get(system, "/healthz") == 200
    for name in TRIES:
        system.await_end(name)

    process = psutil.Process(system.pid)
    assert process.memory_info().rss < MEMORY_MIB_MOST << 20
    assert process.num_fds() < DESCRIPTORS_MOST
    assert get(system, "/healthz") == 200
    assert not [line for line in system.output_lines if "Traceback" in line]
    assert system.breaches() == []
    found = asyncio.run(losses_of(system.state))
    assert {name: found[name] for name in INNOCENTS} == {name: list(range(1, n + 1)) for name, n in INNOCENTS.items()}
    assert system.call("down").returncode == 0
    assert system.wait() == 0

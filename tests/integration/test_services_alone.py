"""The services as separate processes on one state folder: they work, and SIGKILL of any of them loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from steepest.app.installed_services import wanted_services
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.clock import SystemClock
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, SpeConParameters
from steepest.events.received import Received
from steepest.invariants import Status, check
from steepest.log.base import Reader, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.runtime.decode import new_record, received
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Phase

SERVICES = tuple(wanted_services(Settings()))
AT = TopicPartition("cluster")
PATIENCE_S = 90.0
"""How long something that must come is waited for; it ends a hopeless test, and nothing is measured by it."""

KILLS = 10

SCRIPT = Path(__file__).with_name("exclusive_training.py")
"""A training that leaves a mark if a second copy runs, and trains until a file says that it is enough."""


class Installed:
    """An installation whose services are processes, and its log as a test reads it.

    Attributes:
        view: The pool as it was read so far.
        events: All of its events that were read so far.
    """

    def __init__(self, root: Path) -> None:
        self._folder = StateFolder(root)
        nodes = (NodeSpec("n1", Resources(cpu_m=900)), NodeSpec("n2", Resources(cpu_m=900)))
        self._installation = Installation(nodes=nodes, heartbeat_ms=250)
        self._folder.create(self._installation)
        self._log = FileLog(self._folder.log, self._installation.layout.partitions())
        self._reader: Reader = self._log.reader({AT: 0})
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self.view = ClusterView()
        self.events: list[Received[c.ClusterEvent]] = []

    async def start(self, service: str) -> None:
        """Start a service."""
        environ = {**os.environ, "STEEPEST_STATE_DIR": str(self._folder.root)}
        with (self._folder.root / f"{service}.err").open("ab") as errors:
            self._processes[service] = await asyncio.create_subprocess_exec(
                sys.executable, "-m", f"steepest_services.{service.replace('-', '_')}", env=environ, stderr=errors
            )

    async def kill(self, service: str) -> None:
        """SIGKILL a service."""
        process = self._processes[service]
        process.kill()
        assert await process.wait() == -signal.SIGKILL, self.errors(service)

    async def stop(self) -> dict[str, int]:
        """SIGTERM all services; return their exit statuses."""
        for process in self._processes.values():
            process.terminate()
        async with asyncio.timeout(PATIENCE_S):
            return {name: await process.wait() for name, process in self._processes.items()}

    def errors(self, service: str) -> str:
        """The end of a service's error output."""
        return (self._folder.root / f"{service}.err").read_text()[-2_000:]

    async def append(self, *events: c.ClusterEvent) -> None:
        """Append events, as a user does."""
        await self._log.append([new_record(AT, "default", event, SystemClock().now_ms()) for event in events])

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Read on until a condition holds of what was read."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while not condition():
            dead = [name for name, process in self._processes.items() if process.returncode is not None]
            assert not dead, "\n".join([f"{name} ended: {self.errors(name)}" for name in dead])
            assert asyncio.get_running_loop().time() < deadline, f"timed out waiting for {what}; {self._last()}"
            for record in await self._reader.poll(timeout_s=0.2):
                event: Received[c.ClusterEvent] = received(record)
                self.events.append(event)
                self.view.fold(event)

    def _last(self) -> str:
        return "\n".join(str(one.event) for one in self.events[-10:] if not isinstance(one.event, c.Tick | c.NodeUsage))

    def are_over(self, *jobs: str) -> bool:
        """Whether jobs are over."""
        found = [self.view.jobs.get(job) for job in jobs]
        return all(job is not None and job.phase is Phase.ENDED for job in found)

    def has_moved(self, plan: str) -> bool:
        """Whether a move has finished, failed, or never began."""
        found = self.view.plan(plan)
        return found is not None and plan not in self.view.in_flight

    async def aclose(self) -> None:
        """End everything."""
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        await self._reader.close()
        await self._log.close()


@pytest.fixture
async def installed(tmp_path: Path) -> AsyncIterator[Installed]:
    """Seven services, all started at the same time."""
    async with contextlib.aclosing(Installed(tmp_path / "state")) as installed:
        await asyncio.gather(*(installed.start(service) for service in SERVICES))
        await installed.until(lambda: len(installed.view.nodes) == 2, "both nodes to be heard of")
        parameters = PoolParameters(tick_ms=250, specon=SpeConParameters(interval_ms=200), retry_hold_ms=200)
        await installed.append(c.PoolConfigured(parameters=parameters))
        yield installed


def submitted(job: str, *command: str) -> c.JobSubmitted:
    """A submission of a job that runs this Python."""
    spec = c.JobSpec(command=(sys.executable, *command), requests=Resources(cpu_m=200), first_node="n1", retries=3)
    return c.JobSubmitted(job=job, request=f"submit-{job}", spec=spec)


def moved(job: str, number: int) -> c.MigrationPlanned:
    """A planned move."""
    return c.MigrationPlanned(
        plan=f"test-{number}",
        job=job,
        incarnation=1,
        source="n1",
        target="n2",
        kind=c.MoveKind.REBALANCE,
        because=c.Because(rule="a test says so"),
    )


def broken(installed: Installed) -> list[str]:
    """The broken invariants."""
    verdicts = check(installed.events)
    return [f"{one.checker}: {one.message}" for one in verdicts if one.status is not Status.HOLDS]


@pytest.mark.slow
async def test_a_job_runs_through_all_processes(installed: Installed) -> None:
    """Started together on a folder without a log, the services create one, run a job to its end, and stop on request."""
    await installed.append(submitted("a", "-m", "steepest_lab.jobs.linear", "--steps", "200"))
    await installed.until(lambda: installed.are_over("a"), "the job to be over")
    statuses = await installed.stop()

    assert installed.view.jobs["a"].outcome is c.Outcome.FINISHED
    assert installed.view.jobs["a"].measured
    assert len([one for one in installed.events if isinstance(one.event, c.LogOpened)]) == 1
    assert broken(installed) == []
    assert statuses == dict.fromkeys(SERVICES, 0)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("seed", [20_261_121])
async def test_services_may_be_killed_at_any_time(installed: Installed, tmp_path: Path, seed: int) -> None:
    """Ten random SIGKILLs, while jobs are placed, moved and finish: everything finishes, and invariants hold."""
    rng = random.Random(seed)
    jobs = ("a", "b", "c")
    marks = tmp_path / "marks"
    marks.mkdir()
    await installed.append(*(submitted(job, str(SCRIPT), str(marks)) for job in jobs))
    for number in range(KILLS):
        wanted = len(installed.events) + rng.randint(3, 25)
        await installed.until(lambda: len(installed.events) >= wanted, "the log to go on")  # noqa: B023
        if number in {3, 6}:
            await installed.append(moved(jobs[number // 3 - 1], number))
        service = rng.choice(SERVICES)
        await installed.kill(service)
        await installed.start(service)
    await installed.until(lambda: installed.has_moved("test-3") and installed.has_moved("test-6"), "both moves to end")
    (marks / "enough").touch()
    await installed.until(lambda: installed.are_over(*jobs), "all jobs to be over")
    await installed.stop()

    assert [installed.view.jobs[job].outcome for job in jobs] == [c.Outcome.FINISHED] * 3
    assert list(marks.glob("*.twice")) == []
    assert {node.name: node.allocated for node in installed.view.nodes} == {"n1": Resources(), "n2": Resources()}
    assert broken(installed) == []
    assert installed.view.state.gaps == 0

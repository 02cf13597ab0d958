"""Unmodified jobs on two nodes, kept by CRIU: started, moved, and compared with a run that was not moved."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest
from tests.harness.waiting import until

from steepest.cluster.keepers import find_programs, why_unable
from steepest.cluster.local import LocalCluster, LocalNode
from steepest.cluster.local.groups import find_groups
from steepest.cluster.port import Cluster, ReplicaId, ReplicaPhase, ReplicaSpec, ReplicaStatus
from steepest.errors import RefusedError
from steepest.events.common import CheckpointMode, CheckpointRef, Resources
from steepest.events.heartbeat import ReplicaReport
from steepest_lab import jobs

JOB = ReplicaId("job")
PATIENCE_S = 90.0
NODES = ("here", "there")
ENV = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def missing(folder: Path) -> str:
    """Why no job can be kept on this machine, with the command that gets what is missing; empty if it can."""
    programs = find_programs()
    if isinstance(programs, str):
        return programs
    groups = find_groups(folder)
    if groups is not None:
        groups.close()
    if why := why_unable(programs, has_groups=groups is not None):
        return why
    own = subprocess.run([*programs.criu, "check"], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    return "" if own.returncode == 0 else f"this kernel does not let CRIU work: {own.stderr[-300:]}"


PIPES = """
import hashlib, subprocess, sys, time
digest = hashlib.sha256()
with subprocess.Popen(["cat"], stdin=-1, stdout=-1) as child:
    for number in range(int(sys.argv[1])):
        child.stdin.write(b"%d\\n" % number)
        child.stdin.flush()
        digest.update(child.stdout.readline())
        print(number, digest.hexdigest(), flush=True)
        time.sleep(float(sys.argv[2]))
"""
"""A program without NumPy, with a child and pipes: how many lines it prints, and the pause after each."""


def training(steps: int, pause_s: float = 0.005, seed: int = 0) -> tuple[str, ...]:
    """The command of a training in NumPy that knows nothing of Steepest."""
    options = (f"--steps={steps}", f"--pause={pause_s}", f"--seed={seed}")
    return (sys.executable, str(Path(str(jobs.__file__)).with_name("unchanged.py")), *options)


def unmoved(command: Sequence[str]) -> str:
    """What a command prints where nothing moves it."""
    return subprocess.run(command, env=ENV, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout


def emulated(state: Path) -> LocalCluster:
    """Two nodes on this machine."""
    nodes = [LocalNode(name, Resources(cpu_m=2000, memory_mib=4096)) for name in NODES]
    return LocalCluster(state, nodes, "pool", heartbeat_s=0.1)


class KeptJob:
    """One job on a cluster of two nodes that have room for it.

    Attributes:
        folder: Where it runs.
        incarnation: The newest one.
        saved: The newest checkpoint.
        patience_s: How long it is waited for.
    """

    patience_s = PATIENCE_S

    def __init__(
        self,
        state: Path,
        command: Sequence[str],
        mode: CheckpointMode | None,
        *,
        make: Callable[[Path], Cluster] = emulated,
        nodes: Sequence[str] = NODES,
        folder: Path | None = None,
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.state = state
        self._make = make
        self._nodes = nodes
        self.folder = folder or state.parent
        self.spec = ReplicaSpec(
            command=tuple(command),
            working_dir=str(self.folder),
            env={**ENV, **env},
            requests=Resources(cpu_m=100),
            checkpoint_mode=mode,
        )
        self.incarnation = 0
        self.saved: CheckpointRef | None = None
        self.open()

    def open(self) -> None:
        """A new adapter on the same folder."""
        self.cluster = self._make(self.state)

    @property
    def node(self) -> str:
        """The node of the newest incarnation."""
        return self._nodes[(self.incarnation - 1) % 2]

    async def start(self) -> None:
        """Start its next incarnation, on the other node, from its newest checkpoint."""
        self.incarnation += 1
        await self.cluster.start(JOB, self.incarnation, self.node, self.spec, self.saved)

    async def save(self, request: str = "", hold_s: float = 60.0) -> CheckpointRef:
        """Ask its keeper for an image."""
        name = request or f"r{self.incarnation}"
        return await self.cluster.checkpoint(
            JOB, self.incarnation, request=name, hold_s=hold_s, timeout_s=self.patience_s
        )

    async def move(self) -> None:
        """Save it, stop it, and restore it on the other node."""
        self.saved = await self.save()
        ended = await self.cluster.stop(JOB, self.incarnation, grace_s=10.0)
        assert (ended.exit_status, ended.checkpoint) == (85, self.saved)
        await self.start()
        await self.cluster.wait_for_step(JOB, self.incarnation, at_least=self.saved.step, timeout_s=self.patience_s)

    async def declared(self, *modes: CheckpointMode) -> ReplicaReport:
        """The report in which it has one of these modes."""
        async with asyncio.timeout(PATIENCE_S), contextlib.aclosing(self.cluster.heartbeats()) as beats:  # type: ignore[type-var]
            async for beat in beats:
                for report in beat.replicas:
                    if report.incarnation == self.incarnation and report.checkpoint_mode in modes:
                        return report
        raise AssertionError("the heartbeats ended")

    async def printed(self, lines: int) -> None:
        """Wait until all incarnations together have printed so many lines, or it is over."""
        await until(lambda: self.output.count("\n") >= lines or self.is_over, within_s=self.patience_s)

    @property
    def is_over(self) -> bool:
        """Whether the end of its newest incarnation is recorded."""
        folder = self.state / "jobs" / JOB.job / "0" / str(self.incarnation)
        return (folder / "exit.json").exists() or (folder / "gone.json").exists()

    async def status(self) -> ReplicaStatus:
        """What the cluster knows of it."""
        status = await self.cluster.lookup(JOB, verify=False)
        assert status is not None
        return status

    async def end(self) -> int | None:
        """Wait for its end; give its exit status."""
        await until(lambda: self.is_over, within_s=self.patience_s)
        status = await self.status()
        assert status.phase is ReplicaPhase.EXITED, status
        return status.exit_status

    @property
    def output(self) -> str:
        """What its incarnations have printed, one after the other."""
        files = sorted(self.cluster.files(), key=lambda each: each.incarnation)
        return "".join(each.output.read_text(errors="replace") for each in files if each.output.exists())


@contextlib.asynccontextmanager
async def kept(
    state: Path, command: Sequence[str], mode: CheckpointMode = CheckpointMode.SYSTEM, **env: str
) -> AsyncIterator[KeptJob]:
    """A job that runs, on a cluster that is closed in the end; the test is skipped where no job can be kept."""
    if why := missing(state):
        pytest.skip(why)
    async with running(KeptJob(state, command, mode, env=env)) as job:
        yield job


@contextlib.asynccontextmanager
async def running(job: KeptJob) -> AsyncIterator[KeptJob]:
    """It is started, and stopped in the end. What a container prints is copied while heartbeats are followed."""
    listening = asyncio.create_task(_listen(job.cluster))
    try:
        await job.start()
        yield job
    finally:
        listening.cancel()
        status = await job.cluster.lookup(JOB, verify=False)
        if status is not None and not status.has_ended:
            await job.cluster.stop(JOB, status.incarnation, grace_s=0.0)
        await job.cluster.close()


async def _listen(cluster: Cluster) -> None:
    async for _ in cluster.heartbeats():
        pass


async def check_refused(job: KeptJob, code: str) -> None:
    """Its save is refused with that reason, which is declared, and it goes on to its own end."""
    await job.printed(1)
    with pytest.raises(RefusedError, match=code) as refused:
        await job.save()
    assert refused.value.code == "checkpoint-refused"
    report = await job.declared(CheckpointMode.NONE)
    assert report.mode_reason.startswith(f"{code}: ")
    (job.folder / "go").touch()
    assert await job.end() == 0, job.output
    assert job.output == "ready\nOK\n"

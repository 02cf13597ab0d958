"""How a system and its jobs' processes are stopped from outside.

It owns the waits and their bounds, and that a job that an operator stops is charged no retry. It must never decide anything
about a job: the next system reads from the adapter's files what became of it.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import time
from collections.abc import Iterator, Sequence

import msgspec

from steepest.app.installation import open_cluster
from steepest.app.state_folder import Installation, StateFolder
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.observation import declare_gone, recorded_end
from steepest.cluster.port import Cluster, ReplicaId, ReplicaPhase, Stopped
from steepest.describe import ending
from steepest.errors import ClusterError, UncertainError

LEAVE_S = 30.0
"""Longest wait for a system to leave: it finishes a batch and writes its snapshots, in far less."""

POLL_S = 0.05

RUNS = (ReplicaPhase.STARTING, ReplicaPhase.RUNNING)


class StoppedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose process was stopped.

    Attributes:
        step: The last step it reported.
        saved_step: The step of its newest checkpoint.
        error: Why its process may still run; empty where it is proven to have ended.
    """

    job: str
    exit_status: int | None = None
    step: int | None = None
    saved_step: int | None = None
    error: str = ""

    def __str__(self) -> str:
        if self.error:
            return f"{self.job} may still run: {self.error}"
        if self.exit_status == 0:
            return f"{self.job} finished just now"
        at = "" if self.step is None else f" at step {self.step}"
        saved = "without a checkpoint" if self.saved_step is None else f"with a checkpoint of step {self.saved_step}"
        return f"stopped {self.job}{at}, {saved} ({ending(self.exit_status)})"


def stop_system(folder: StateFolder) -> int | None:
    """Stop the system that runs on a folder, and wait until it has left; give its process, None where none ran.

    Raises:
        UncertainError: It has not left in time, or the lock is held by somebody else.
    """
    process = folder.system()
    if process is None:
        return None
    try:
        os.kill(process, signal.SIGTERM)
    except ProcessLookupError:
        return process
    deadline = time.monotonic() + LEAVE_S
    while folder.running() == process:
        if time.monotonic() >= deadline:
            raise UncertainError(
                f"process {process} still runs {LEAVE_S:g} s after SIGTERM",
                hint=f"`kill -9 {process}` loses nothing; then call this again",
            )
        time.sleep(POLL_S)
    return process


async def stop_all(
    folder: StateFolder,
    installation: Installation,
    grace_s: float,
    pools: Sequence[str] = (),
    since_s: float = math.inf,
) -> list[StoppedJob]:
    """Stop every job's process in some pools, or in all, of a folder on which no system runs; name what finished since.

    Raises:
        InputError: A system runs on it.
    """
    with folder.sole():
        stopped = await asyncio.gather(
            *(_stop_pool(folder, installation, pool, grace_s, since_s) for pool in pools or installation.layout.pools)
        )
    return [job for jobs in stopped for job in jobs]


async def _stop_pool(
    folder: StateFolder, installation: Installation, pool: str, grace_s: float, since_s: float
) -> list[StoppedJob]:
    folder, cluster = folder.of_pool(installation, pool), open_cluster(folder, installation, pool)
    try:
        known = sorted(dict(_incarnations(cluster)).items())
        stopped = await asyncio.gather(*(_stop(cluster, folder, replica, number, grace_s) for replica, number in known))
    finally:
        await cluster.close()
    every = [job or _finished(folder, *one, since_s) for one, job in zip(known, stopped, strict=True)]
    return [job for job in every if job is not None]


def _incarnations(cluster: Cluster) -> Iterator[tuple[ReplicaId, int]]:
    """Every incarnation that is known, the newest of each replica last."""
    found = [(one.incarnation, one.replica) for one in cluster.files()]
    yield from ((replica, incarnation) for incarnation, replica in sorted(found))


async def _stop(
    cluster: Cluster, folder: StateFolder, replica: ReplicaId, incarnation: int, grace_s: float
) -> StoppedJob | None:
    try:
        status = await cluster.lookup(replica, verify=False)  # the phase is enough; reading checkpoints takes seconds
        if status is None or status.phase not in RUNS:
            return None
        stopped = await cluster.stop(replica, incarnation, grace_s=grace_s)
    except ClusterError as error:
        return StoppedJob(job=replica.job, error=str(error))
    if stopped.exit_status != 0:
        await asyncio.to_thread(_uncharged, folder, replica, incarnation)
    return _stopped_job(replica.job, stopped)


def _finished(folder: StateFolder, replica: ReplicaId, incarnation: int, since_s: float) -> StoppedJob | None:
    files = AdapterFolder(folder.cluster).incarnation(replica, incarnation)
    is_over = (end := recorded_end(files)) is not None and end.exit_status == 0
    return StoppedJob(job=replica.job, exit_status=0) if is_over and files.exit.stat().st_mtime >= since_s else None


def _uncharged(folder: StateFolder, replica: ReplicaId, incarnation: int) -> None:
    """Put it on record as gone instead of ended: how it took our stop is no failure of its own, and counts as none."""
    files = AdapterFolder(folder.cluster).incarnation(replica, incarnation)
    declare_gone(files, "it was stopped by `steepest down`")
    files.exit.unlink(missing_ok=True)


def _stopped_job(job: str, stopped: Stopped) -> StoppedJob:
    saved = stopped.checkpoint.step if stopped.checkpoint else None
    return StoppedJob(job=job, exit_status=stopped.exit_status, step=stopped.step, saved_step=saved)

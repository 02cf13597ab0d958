"""A run of trainings whose recording is kept: what has run to its end is read again, and not run again.

It owns the folder of a run, and the mark that it is complete: the workload and the parameters that it ran with. It must
never know what is measured.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from steepest.cli.live.audience import NoAudience
from steepest.errors import ClusterError
from steepest.events import cluster as c
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.read_models.run_timeline import RunTimeline
from steepest_lab.demo.play import Play
from steepest_lab.demo.workload import DemoWorkload
from steepest_lab.testbed.preemption import trainings
from steepest_lab.testbed.preemption.outcomes import Records

COMPLETE = "complete"
"""File in the folder of a finished run, with a digest of what ran."""

OnStep = Callable[[str], None]
"""Called with a message on each finished step."""


class JobsOver(NoAudience):
    """Reports each job that is over."""

    def __init__(self, run: str, jobs: int, on_step: OnStep) -> None:
        self._run, self._jobs, self._on_step = run, jobs, on_step

    def tell(self, timeline: RunTimeline, received: Received[c.ClusterEvent]) -> None:
        """Count it."""
        if isinstance(received.event, c.JobEnded):
            self._on_step(f"{self._run}: {timeline.ended()} of {self._jobs} jobs are over")


def run_once(
    given: DemoWorkload,
    parameters: PoolParameters,
    folder: Path,
    on_step: OnStep,
    *,
    storage_bytes_s: int = trainings.STORAGE_BYTES_S,
) -> Records:
    """The events of a run: of the one whose recording is in the folder, if it is complete and the same, else of a new one.

    Raises:
        InputError: There is no storage server.
        ClusterError: A job failed.
        RecordingError: The recording cannot be read.
        KeyboardInterrupt: It was interrupted; the next call starts it again.
    """
    digest = hashlib.sha256(msgspec.json.encode([given, parameters])).hexdigest()
    mark = folder / COMPLETE
    if mark.is_file() and mark.read_text(encoding="utf-8") == digest:
        on_step(f"{folder.name}: read from its recording")
        return asyncio.run(Play(folder, given, parameters).recorded())
    shutil.rmtree(folder, ignore_errors=True)
    with trainings.with_storage(given, bytes_s=storage_bytes_s) as (staged,):
        audience = JobsOver(folder.name, len(given.arrivals), on_step)
        events = asyncio.run(_played(Play(folder, staged, parameters), audience))
    mark.write_text(digest, encoding="utf-8")
    return events


async def _played(play: Play, audience: JobsOver) -> Records:
    await play.run(audience)
    if play.interrupted.is_set():
        raise KeyboardInterrupt
    if play.failed:
        folder = play.recording.parent
        raise ClusterError(f"a job of {folder} failed", code="job-failed", hint=f"steepest jobs --state {folder}")
    return await play.recorded()

"""A run of real trainings whose recording is kept: what has run to its end is read again, and not run again.

It owns the folder of a run, and the mark that it is complete: the jobs and the parameters that it ran with. It must never
know what is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
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

COMPLETE = "complete"
"""File in the folder of a finished run, with a digest of what ran."""

Records = Sequence[Received[c.ClusterEvent]]

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


def is_kept(given: DemoWorkload, parameters: PoolParameters, folder: Path) -> bool:
    """Whether the recording in the folder is complete, and that of these jobs and parameters."""
    mark = folder / COMPLETE
    return mark.is_file() and mark.read_text(encoding="utf-8") == _digest(given, parameters)


def run_once(
    given: DemoWorkload,
    parameters: PoolParameters,
    folder: Path,
    on_step: OnStep = lambda _: None,
    staged: Callable[[DemoWorkload], AbstractContextManager[DemoWorkload]] = contextlib.nullcontext,
) -> Records:
    """The events of a run: of the one whose recording is in the folder, if it is complete and the same, else of a new one.

    Args:
        given: The nodes, and the jobs with their arrivals.
        parameters: Of the pool.
        folder: Of the recording; a run that is not complete or another one is replaced.
        on_step: Is called with what was done.
        staged: Gives the jobs what they need for as long as they run, as a storage server.

    Raises:
        ClusterError: A job failed.
        RecordingError: The recording cannot be read.
        KeyboardInterrupt: It was interrupted; the next call starts it again.
    """
    if is_kept(given, parameters, folder):
        on_step(f"{folder.name}: read from its recording")
        return asyncio.run(Play(folder, given, parameters).recorded())
    shutil.rmtree(folder, ignore_errors=True)
    with staged(given) as at_hand:
        audience = JobsOver(folder.name, len(given.arrivals), on_step)
        events = asyncio.run(_played(Play(folder, at_hand, parameters), audience))
    (folder / COMPLETE).write_text(_digest(given, parameters), encoding="utf-8")
    return events


def timeline_of(events: Records) -> RunTimeline:
    """The timeline of a recorded run."""
    timeline = RunTimeline()
    for event in events:
        timeline.fold(event)
    return timeline


def _digest(given: DemoWorkload, parameters: PoolParameters) -> str:
    """Of the jobs and the sizes of the nodes: engines listen at other addresses every time."""
    nodes = [(node.name, node.capacity) for node in given.nodes]
    made_of = [msgspec.structs.replace(given, nodes=()), nodes, parameters]
    return hashlib.sha256(msgspec.json.encode(made_of)).hexdigest()


async def _played(play: Play, audience: JobsOver) -> Records:
    await play.run(audience)
    if play.interrupted.is_set():
        raise KeyboardInterrupt
    if play.failed:
        folder = play.recording.parent
        raise ClusterError(f"a job of {folder} failed", code="job-failed", hint=f"steepest jobs --state {folder}")
    return await play.recorded()

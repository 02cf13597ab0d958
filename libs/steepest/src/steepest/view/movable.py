"""Whether a job may be moved at all. It must never know where to, or who asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steepest.events.common import CheckpointMode
from steepest.view.refusal import Refusal, first
from steepest.view.state import Job


class Immovable(Refusal):
    """Why a job must not be moved to any target."""

    NO_PROCESS = "no-process", "no process of it runs"
    NO_CHECKPOINT = "no-checkpoint", "it cannot be checkpointed"
    UNPROVEN_CHECKPOINT = "unproven-checkpoint", "it saves when it is stopped, and has not proven yet that it can"


IMMOVABLE: Mapping[Immovable, Callable[[Job], bool]] = {
    Immovable.NO_PROCESS: lambda job: not job.alive,
    Immovable.NO_CHECKPOINT: lambda job: job.mode is CheckpointMode.NONE,
    Immovable.UNPROVEN_CHECKPOINT: lambda job: job.mode is CheckpointMode.ON_STOP and job.checkpoint is None,
}


def immovable(job: Job) -> Immovable | None:
    """Why a job must not be moved to any target; None if it may be."""
    return first(IMMOVABLE, job)


def immovable_sentence(job: Job) -> str:
    """The same in words, with what its keeper says; empty if it may be moved."""
    why = immovable(job)
    if why is None:
        return ""
    return f"{why.sentence}: {job.mode_reason}" if job.mode_reason else why.sentence

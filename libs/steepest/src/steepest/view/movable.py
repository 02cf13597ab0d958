"""Whether a job may be moved at all. It must never know where to, or who asks."""

from __future__ import annotations

from steepest.events.common import CheckpointMode
from steepest.view.state import Job


def why_immovable(job: Job) -> str:
    """Why a job must not be moved whatever the target; empty if it may be."""
    if not job.alive:
        return "no process of it runs"
    match job.mode:
        case CheckpointMode.NONE:
            return "it cannot be checkpointed"
        case CheckpointMode.ON_STOP if job.checkpoint is None:
            return "it saves when it is stopped, and has not proven yet that it can"
    return ""

"""Whether a job may be moved at all. It must never know where to, or who asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steepest.events.common import KEPT, CheckpointMode, KeeperFacts
from steepest.view.refusal import Refusal, first
from steepest.view.state import Job, Node


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


def immovable_sentence(job: Job, node: Node | None) -> str:
    """The same in words, with what its keeper says, or why its node has none; empty if it may be moved."""
    why = immovable(job)
    if why is None:
        return ""
    said = job.mode_reason or (_why_not_kept(job, node.keeper) if node is not None and node.keeper is not None else "")
    return f"{why.sentence}: {said}" if said and why is Immovable.NO_CHECKPOINT else why.sentence


def may_yet_be_kept(job: Job, node: Node | None) -> bool:
    """Whether a keeper may yet declare that a job can be saved."""
    asked = job.spec.checkpoint_mode
    is_open = job.declared_mode is None and (asked is None or asked in KEPT)
    return is_open and node is not None and node.keeper is not None and not _why_not_kept(job, node.keeper)


def _why_not_kept(job: Job, keeper: KeeperFacts) -> str:
    """Why a job has no keeper whose user says nothing about it."""
    spec = job.spec
    if spec.checkpoint_mode not in {None, CheckpointMode.AUTO}:
        return ""
    if keeper.unable:
        return f"no-keeper: {keeper.unable}"
    if spec.is_elastic:
        return "gang: its image could not be restored with more or fewer replicas"
    if spec.is_gang and len(dict.fromkeys(job.running_on)) > 1:
        return "gang: its replicas talk over TCP between nodes"
    if spec.requests.gpus or spec.requests.gpu_m:
        return "device: memory of GPUs is not saved"
    return "terminal: a terminal from outside is not saved" if spec.tty else ""

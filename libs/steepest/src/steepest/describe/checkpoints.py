"""How a job saves, and what a checkpoint of it holds, in words."""

from __future__ import annotations

from steepest.events.common import CheckpointMode, CheckpointRef

SAVES = {
    CheckpointMode.ON_REQUEST: "supports checkpoints on request",
    CheckpointMode.ON_STOP: "saves a checkpoint when it is stopped",
    CheckpointMode.NONE: "cannot save checkpoints, so it will not be moved",
    CheckpointMode.SYSTEM: "can be saved as it is",
    CheckpointMode.AUTO: "saves as it declares",
}
"""What a job that declares a mode does."""


def held(checkpoint: CheckpointRef, word: str = "of") -> str:
    """What it holds, as it follows the noun; ``word`` comes before a step."""
    return "of its processes" if checkpoint.is_image else f"{word} step {checkpoint.step}"

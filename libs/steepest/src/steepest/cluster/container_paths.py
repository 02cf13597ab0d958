"""The paths of a job's own folders in its container, which Docker and Kubernetes have in common.

They lie in no folder of the user's: there a folder above them may be closed to the container's user.
"""

from __future__ import annotations

import os
from pathlib import Path

from steepest.cluster.port import MetricsPlace

CONTROL = "/steepest/control"
CHECKPOINTS = "/steepest/checkpoints"

VARIABLES = {"STEEPEST_CONTROL": CONTROL, "STEEPEST_CHECKPOINTS": CHECKPOINTS}
"""They tell the job."""


def metrics_in_checkpoints(asked: str, checkpoints: Path) -> MetricsPlace | None:
    """The folder on this machine of a path that the job's process sees, if that is in its checkpoints.

    Args:
        asked: The path; a relative one begins in the checkpoints.
        checkpoints: The job's checkpoints on this machine.
    """
    path = Path(os.path.normpath(Path(CHECKPOINTS, asked)))
    if not path.is_relative_to(CHECKPOINTS):
        return None
    return MetricsPlace(checkpoints / path.relative_to(CHECKPOINTS), checkpoints.parent)

"""What a job of a state folder printed: which of its incarnations is meant, and its last lines beside a failure."""

from __future__ import annotations

from steepest.app.state_folder import StateFolder
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.folders.printed import last_lines
from steepest.cluster.port import ReplicaId
from steepest.errors import SteepestError

FAILURE_LINES = 5
"""Shown beside a failure: the end of a traceback."""


def incarnations(folder: StateFolder, replica: ReplicaId) -> list[IncarnationFolder]:
    """The incarnations of a replica whose output is kept, the oldest first.

    Raises:
        InputError: It is no name of a job.
    """
    return AdapterFolder(folder.cluster).printed(replica)


def printed_last(folder: StateFolder, job: str) -> list[str]:
    """The last lines of the newest incarnation of a job's chief; none where nothing is kept, or nothing can be read."""
    try:
        kept = incarnations(folder, ReplicaId(job))
        return last_lines(kept[-1], FAILURE_LINES)[0] if kept else []
    except (SteepestError, OSError):
        return []

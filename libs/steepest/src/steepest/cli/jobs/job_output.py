"""The last lines that a job of a state folder printed, shown with its failure."""

from __future__ import annotations

from steepest.app.state_folder import StateFolder
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.folders.printed import last_lines
from steepest.cluster.follow_printed import kept_of
from steepest.cluster.port import ReplicaId
from steepest.errors import SteepestError

FAILURE_LINES = 5
"""Shown with a failure: the end of a traceback."""


def printed_last(folder: StateFolder, job: str, replica: int) -> list[str]:
    """The last lines of a replica's newest incarnation; none where nothing is kept, or nothing can be read."""
    try:
        kept = kept_of(AdapterFolder(folder.cluster), ReplicaId(job, replica), None)
        return last_lines(kept, FAILURE_LINES)[0] if kept else []
    except (SteepestError, OSError):
        return []

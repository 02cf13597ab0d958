"""When what became of each job, as the fake kubelets write it and the benchmark reads it.

It owns the form of these lines.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

LINES = "pods.jsonl"


class PodTime(msgspec.Struct, frozen=True):
    """What became of a pod, and when.

    Attributes:
        uid: The pod.
        what: ``bound``, ``running`` or ``ended``.
        at_s: The wall clock in seconds.
        job: The job of Steepest, or else the Job; empty: it has neither.
    """

    uid: str
    what: str
    at_s: float
    job: str = ""


class PodTimes:
    """The times that are written so far.

    Args:
        path: The file; it may not exist yet.

    Attributes:
        last: By what happened, by job: when it last did. A start that came too late is made again with another pod.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self.last: dict[str, dict[str, PodTime]] = {"bound": {}, "running": {}, "ended": {}}

    def read(self) -> None:
        """Read what was written since; a line that is being written is left for the next time."""
        if not self._path.exists():
            return
        with self._path.open("rb") as lines:
            lines.seek(self._at)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._at += len(line)
                found = msgspec.json.decode(line, type=PodTime)
                self.last[found.what][found.job] = found

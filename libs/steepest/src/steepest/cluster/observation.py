"""The proven state of one incarnation, and the records of its end, which outlive the evidence.

It owns the vocabulary, what an exit status is worth, and the two files of an end. It must never know how a state is proven:
each adapter does that itself.
"""

from __future__ import annotations

import contextlib
import signal

import msgspec

from steepest.cluster.folders.adapter_folder import ExitRecord, GoneRecord, IncarnationFolder
from steepest.cluster.port import ReplicaPhase
from steepest.logger import Logger
from steepest.untrusted import files

_log = Logger()
_REASON_MOST = 400
_SIGNALS = range(129, 193)
ANSWERS = frozenset({85, -signal.SIGTERM, -signal.SIGKILL})
"""Exit statuses of a process that was asked to end: it saved and left, or a signal ended it."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """The state of an incarnation when it was observed.

    Attributes:
        began: A part of it may have run; False only if a start was never carried out.
    """

    phase: ReplicaPhase
    exit_status: int | None = None
    reason: str = ""
    began: bool = True

    @property
    def ended(self) -> bool:
        """Whether it no longer runs and never will."""
        return self.phase in (ReplicaPhase.EXITED, ReplicaPhase.GONE)


def status_of(code: int) -> int:
    """The exit status, as from ``wait``, of a container: a shell's code is 128 + the signal."""
    return 128 - code if code in _SIGNALS else code


def end(status: int | None, why: str = "", *, place: str = "", is_memory: bool = False) -> Observation:
    """The end of an incarnation: nothing else says whether its exit status speaks of its job.

    Args:
        status: As from ``wait``; None: unknown.
        why: What else is known of it.
        place: How its place ended and took it along, unless it finished.
        is_memory: Whether the kernel has killed a process of it for its memory. That may have been a child, long before:
            an end that answers to something else is not by it.
    """
    if place and status:
        status, why = None, f"{place}; its exit status was {status}"
    elif is_memory and status and status not in ANSWERS - {-signal.SIGKILL}:
        why = NO_MEMORY
    if status is None:
        return Observation(phase=ReplicaPhase.GONE, reason=why[:_REASON_MOST])
    return Observation(phase=ReplicaPhase.EXITED, exit_status=status, reason=why[:_REASON_MOST])


NO_MEMORY = "it ran out of memory"


def write_order(folder: IncarnationFolder, order: bytes) -> None:
    """Write the order to its keeper. From here on an end is not the job's own, until its keeper says that it is.

    Raises:
        OSError: It has none.
    """
    folder.write(folder.lost, GoneRecord(reason="its keeper was killed"))
    files.replace(folder.keeping, order, below=folder.below)


def kept_end(folder: IncarnationFolder, seen: Observation) -> Observation:
    """An end with what its keeper says of it: why it is not the job's own.

    That it was killed is said before it begins. Where its memory had run out, that was by its job's limit.
    """
    said = folder.read(folder.lost, GoneRecord) if seen.ended and folder.keeping.exists() else None
    is_memory = seen.reason == NO_MEMORY and seen.exit_status == -signal.SIGKILL
    is_place = seen.exit_status is None and seen.reason != ""
    if said is None or seen.exit_status == 0 or is_memory or is_place:
        return seen
    return end(seen.exit_status, said.reason, place=said.reason)


def recorded_end(folder: IncarnationFolder) -> Observation | None:
    """How it ended; None if that is not recorded."""
    if (exited := folder.read(folder.exit, ExitRecord)) is not None:
        seen = end(exited.status, exited.reason, place=exited.place)
        return seen if exited.reason else kept_end(folder, seen)
    if (gone := folder.read(folder.gone, GoneRecord)) is not None:
        return end(None, gone.reason)
    return None


def record(folder: IncarnationFolder, seen: Observation) -> Observation:
    """Record an end that was proven, unless one is; give the recorded one, or ``seen`` where the disk is full."""
    if (ended := recorded_end(folder)) is not None:
        return ended
    with contextlib.suppress(OSError):
        if seen.exit_status is None:
            return declare_gone(folder, seen.reason)
        folder.write(folder.exit, ExitRecord(status=seen.exit_status, reason=seen.reason))
    return seen


def declare_gone(folder: IncarnationFolder, reason: str) -> Observation:
    """Record that it no longer runs and never will. The caller must have proven it."""
    folder.write(folder.gone, GoneRecord(reason=reason))
    _log.warning("replica gone", incarnation=str(folder), why=reason)
    return end(None, reason)

"""The proven state of one incarnation, and the records of its end, which outlive the evidence.

It owns the vocabulary and the two files of an end. It must never know how a state is proven: each adapter does that itself.
"""

from __future__ import annotations

import msgspec

from steepest.cluster.folders.adapter_folder import ExitRecord, GoneRecord, IncarnationFolder
from steepest.cluster.port import ReplicaPhase
from steepest.logger import Logger

_log = Logger()
_REASON_MOST = 400


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


def recorded_end(folder: IncarnationFolder) -> Observation | None:
    """How it ended; None if that is not recorded."""
    if (exited := folder.read(folder.exit, ExitRecord)) is not None:
        return Observation(phase=ReplicaPhase.EXITED, exit_status=exited.status, reason=exited.reason[:_REASON_MOST])
    if (gone := folder.read(folder.gone, GoneRecord)) is not None:
        return Observation(phase=ReplicaPhase.GONE, reason=gone.reason[:_REASON_MOST])
    return None


def declare_gone(folder: IncarnationFolder, reason: str) -> Observation:
    """Record that it no longer runs and never will. The caller must have proven it."""
    folder.write(folder.gone, GoneRecord(reason=reason))
    _log.warning("replica gone", incarnation=str(folder), why=reason)
    return Observation(phase=ReplicaPhase.GONE, reason=reason)

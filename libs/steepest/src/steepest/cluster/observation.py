"""What surely is so of one incarnation, and the records of an end, which outlive whatever proved it.

It owns the words and the two files of an end. It must never know how something is proven: that is each adapter's business.
"""

from __future__ import annotations

import msgspec
import structlog

from steepest.cluster.folders.adapter_folder import ExitRecord, GoneRecord, IncarnationFolder
from steepest.cluster.port import ReplicaPhase

_log = structlog.get_logger(__name__)
_REASON_MOST = 400


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What is so now.

    Attributes:
        began: Something of it may have run; False only where a start was never carried out.
    """

    phase: ReplicaPhase
    exit_status: int | None = None
    reason: str = ""
    began: bool = True

    @property
    def ended(self) -> bool:
        """It does not run any more and never will."""
        return self.phase in (ReplicaPhase.EXITED, ReplicaPhase.GONE)


def recorded_end(folder: IncarnationFolder) -> Observation | None:
    """How it ended, where that is on record."""
    if (exited := folder.read(folder.exit, ExitRecord)) is not None:
        return Observation(phase=ReplicaPhase.EXITED, exit_status=exited.status, reason=exited.reason[:_REASON_MOST])
    if (gone := folder.read(folder.gone, GoneRecord)) is not None:
        return Observation(phase=ReplicaPhase.GONE, reason=gone.reason[:_REASON_MOST])
    return None


def declare_gone(folder: IncarnationFolder, reason: str) -> Observation:
    """Put on record that it does not run and never will; only for what was proven."""
    folder.write(folder.gone, GoneRecord(reason=reason))
    _log.warning("replica gone", incarnation=str(folder), why=reason)
    return Observation(phase=ReplicaPhase.GONE, reason=reason)

"""What jobs held, and how much of it without effect: CPU and GPU hours by week, queue, user and finding, from a pool's log.

Time is the pool's counted time, so an outage holds nothing; it is divided among weeks by the wall clock. A job with several
findings counts for the first of ``WITHOUT_EFFECT``. What a finding says of the time before it was found counts too.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from steepest.events.growth import FindingKind
from steepest.view.cluster_view import ClusterView
from steepest.view.queue_use import holdings
from steepest.view.state import Job

WITHOUT_EFFECT = (
    FindingKind.HUNG,
    FindingKind.IDLE,
    FindingKind.DIVERGED,
    FindingKind.LOST,
    FindingKind.STUCK,
    FindingKind.PLATEAU,
)
"""Findings while which a job holds its place without effect, the surest first."""

ALL = "all"
"""What the jobs of a user in a queue held in all."""

_HOUR_MS = 3_600_000


class HoldingRow(msgspec.Struct, kw_only=True):
    """Hours that jobs held in a week.

    Attributes:
        week: Its Monday, in UTC.
        user: Who submitted them; empty: that is not known.
        finding: The kind of finding meanwhile; :data:`ALL`: with and without findings.
        jobs: How many jobs.
    """

    week: str
    queue: str
    user: str
    finding: str
    cpu_hours: float = 0.0
    gpu_hours: float = 0.0
    jobs: int = 0


class _Span(msgspec.Struct):
    """A job's time since something of it changed."""

    counted_ms: int
    at_ms: int
    finding: FindingKind | None
    cpu_m: int
    gpu_m: int
    queue: str
    user: str


class HeldHours:
    """Folds records, each once the view has."""

    def __init__(self) -> None:
        self._open: dict[str, _Span] = {}
        self._held: dict[tuple[str, str, str, str], HoldingRow] = {}
        self._jobs: dict[tuple[str, str, str, str], dict[str, None]] = {}

    def hear(self, view: ClusterView, job: Job, at_ms: int) -> None:
        """A record about a job was folded, at its time."""
        span = self._open.get(job.name)
        finding = next((kind for kind in WITHOUT_EFFECT if kind in job.findings), None)
        wanted = (finding, *_amounts(job)) if job.alive else None
        if span is not None and wanted == (span.finding, span.cpu_m, span.gpu_m):
            return
        if span is not None:
            del self._open[job.name]
            since_ms = view.counted_ms
            if job.alive and finding is not None and span.finding is None:
                # It was so already for a while when it was found.
                since_ms = max(span.counted_ms, min(job.findings[finding].since_ms or since_ms, since_ms))
            found_ms = at_ms - (view.counted_ms - since_ms)
            self._add(job.name, span, since_ms, found_ms)
            if since_ms < view.counted_ms:
                span = msgspec.structs.replace(span, counted_ms=since_ms, at_ms=found_ms, finding=finding)
                self._add(job.name, span, view.counted_ms, at_ms)
        if wanted is not None:
            self._open[job.name] = _Span(view.counted_ms, at_ms, *wanted, job.spec.queue, job.user)

    def rows(self, view: ClusterView, at_ms: int) -> list[HoldingRow]:
        """All weeks up to now, the oldest first. Nothing can be folded afterwards."""
        for name, span in self._open.items():
            self._add(name, span, view.counted_ms, at_ms)
        self._open = {}
        order = {ALL: -1, **{kind.value: place for place, kind in enumerate(WITHOUT_EFFECT)}}
        return [
            msgspec.structs.replace(held, jobs=len(self._jobs[key]))
            for key, held in sorted(self._held.items(), key=lambda one: (*one[0][:3], order[one[0][3]]))
        ]

    def _add(self, job: str, span: _Span, counted_ms: int, at_ms: int) -> None:
        hours = max(0, counted_ms - span.counted_ms) / _HOUR_MS
        for week, share in _weeks(span.at_ms, at_ms):
            for finding in (ALL, span.finding):
                if finding is not None and hours:
                    key = (week, span.queue, span.user, str(finding))
                    held = self._held.get(key)
                    if held is None:
                        held = self._held[key] = HoldingRow(
                            week=week, queue=span.queue, user=span.user, finding=str(finding)
                        )
                    held.cpu_hours += share * hours * span.cpu_m / 1_000
                    held.gpu_hours += share * hours * span.gpu_m / 1_000
                    self._jobs.setdefault(key, {})[job] = None


def _amounts(job: Job) -> tuple[int, int]:
    """Millicores, and thousandths of GPUs, that its running replicas hold."""
    held = holdings(job.spec, job.running_sizes)
    return held.cpu_m, 1_000 * held.gpus + held.gpu_m


def _weeks(from_ms: int, to_ms: int) -> Iterator[tuple[str, float]]:
    """The weeks of a time, each with its share of it."""
    since_ms = from_ms
    while True:
        day = datetime.fromtimestamp(since_ms / 1_000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        monday = day - timedelta(days=day.weekday())
        end_ms = round((monday + timedelta(days=7)).timestamp() * 1_000)
        until_ms = min(end_ms, max(to_ms, since_ms))
        yield monday.date().isoformat(), (until_ms - since_ms) / (to_ms - from_ms) if to_ms > from_ms else 1.0
        if until_ms >= to_ms:
            return
        since_ms = until_ms

"""What a suspension and a resumption take: a model, calibrated by those that were measured.

A reconstruction. The paper's abstract: a suspension waits for the end of the current epoch, a resumption reloads the model
and the training data; the prediction is off by less than 5 % on average. Here:

* *Suspension.* A job that saves at the end of its epoch takes what is left of the epoch, and then the time to save and stop.
  What is left follows from the bytes that it has yet to read (:mod:`steepest.policies.pickyman.reading`).
  A job that saves at its next step takes the latter alone. Which kind a job is, nothing announces: both are predicted, and
  the one that was nearer to the suspensions measured of its model counts; before any was measured, the end of the epoch.
* *Resumption.* To start, and to read program, model and data from the storage, whose bandwidth all jobs share that start at
  the same time: a + r·n for n readers, where a and r are not negative and are fitted to the resumptions measured of the same
  model. As long as those had as many readers each, and before any was measured: r from the bytes that an incarnation read
  before its first epoch and the storage's bandwidth; where that is unknown, half of what was measured, or the first start's
  time to load.

Old measurements count less than new ones. All of it is a fold over the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from statistics import median

import msgspec

from steepest.events import cluster as c
from steepest.policies.pickyman.reading import Readings
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job

MODELS_KEPT = 500

JOBS_KEPT = 20_000
"""Jobs that were resumed and are remembered; beyond that, the one that was resumed first is forgotten."""

MEASURED_KEPT = 16
"""Measurements of a model that are remembered, of each kind."""

FORGET = 0.9
"""Weight of a measurement, against the one after it."""

LEFT_KNOWN_MS, LEFT_SPREAD = 300.0, 0.04
"""How well the rest of an epoch is known: to so much, and such a share of it. So a short suspension says more of the time
to save and stop than a long one, or one that came an epoch later than it was taken to."""

FIRST_SUSPENSION_MS = 2_000
"""Time to save and stop, before any was measured in the pool."""

FIRST_RESUMPTION_MS = 5_000
"""Time to start, before any was measured in the pool (SpeCon's moves took less than 5 s)."""


class SuspensionSeen(msgspec.Struct, frozen=True):
    """A suspension: what was left of the epoch when it was asked for (None: unknown), and how long it took."""

    epoch_left_ms: int | None
    took_ms: int


class ResumptionSeen(msgspec.Struct, frozen=True):
    """A resumption: how many jobs started at the same time, and how long it took."""

    readers: int
    took_ms: int


class ModelOverheads(msgspec.Struct):
    """The newest measurements of a model's jobs, the oldest first."""

    suspensions: list[SuspensionSeen] = []
    resumptions: list[ResumptionSeen] = []


class Overheads(msgspec.Struct):
    """Measurements by model; those of all models are under the empty name.

    Attributes:
        resumed: By job, the incarnation that was resumed last, and when it trained again: an epoch began then, since the
            one before was suspended at the end of one.
        readings: How far the jobs have read in their epochs.
    """

    models: dict[str, ModelOverheads] = {}
    resumed: dict[str, tuple[int, int]] = {}
    readings: Readings = msgspec.field(default_factory=Readings)

    def observe(self, view: ClusterView, event: c.ClusterEvent, at_ms: int) -> None:
        """Take in what a record that counts says of what jobs read. Work: O(1), and O(replicas) for a node's usage."""
        self.readings.observe(view, event, at_ms)

    def learn_suspension(self, model: str, epoch_left_ms: int | None, took_ms: int) -> None:
        """A suspension was measured."""
        for name in dict.fromkeys((model, "")):
            kept = self._of(name).suspensions
            kept.append(SuspensionSeen(epoch_left_ms, took_ms))
            del kept[:-MEASURED_KEPT]

    def learn_resumption(self, model: str, readers: int, took_ms: int) -> None:
        """A resumption was measured."""
        for name in dict.fromkeys((model, "")):
            kept = self._of(name).resumptions
            kept.append(ResumptionSeen(readers, took_ms))
            del kept[:-MEASURED_KEPT]

    def suspension_ms(self, job: Job, at_ms: int) -> int:
        """How long a suspension takes that is asked for at a record's time. Work: O(measurements kept)."""
        seen = self._known(job.spec.model).suspensions
        left = self.epoch_left_ms(job, at_ms)
        to_save = _weighted_median(
            [(FORGET**age, one.took_ms) for age, one in enumerate(reversed(seen))], FIRST_SUSPENSION_MS
        )
        if left is None or _saves_at_steps(seen):
            return round(to_save)
        after = [
            (FORGET**age / (LEFT_KNOWN_MS + LEFT_SPREAD * one.took_ms) ** 2, max(one.took_ms - one.epoch_left_ms, 0))
            for age, one in enumerate(reversed(seen))
            if one.epoch_left_ms is not None
        ]
        return left + round(_weighted_median(after, FIRST_SUSPENSION_MS))

    def resumption_ms(self, job: Job, readers: int, storage_bytes_s: int | None = None) -> int:
        """How long a resumption takes; ``readers``: the jobs that start meanwhile, this one included."""
        own = self.models.get(job.spec.model) if job.spec.model else None
        traffic = job.epochs_seen
        alone_ms = (
            1000 * traffic.load_bytes / storage_bytes_s
            if traffic is not None and traffic.load_bytes and storage_bytes_s
            else None
        )
        if own is not None and own.resumptions:
            fixed, shared = _line(own.resumptions, alone_ms)
            return round(fixed + shared * readers)
        everyone = self.models.get("")
        start = (
            _line(everyone.resumptions) if everyone is not None and everyone.resumptions else (FIRST_RESUMPTION_MS, 0)
        )
        if alone_ms is not None:
            return round(start[0] + alone_ms * readers)
        if traffic is not None and traffic.load_ms is not None:
            return max(traffic.load_ms, 1)
        return round(start[0] + start[1] * readers)

    def trains_again(self, job: str, incarnation: int, at_ms: int) -> None:
        """A resumption is over."""
        self.resumed.pop(job, None)
        self.resumed[job] = (incarnation, at_ms)
        if len(self.resumed) > JOBS_KEPT:
            del self.resumed[next(iter(self.resumed))]

    def epoch_left_ms(self, job: Job, at_ms: int) -> int | None:
        """Time until the epoch under way ends; None where that is unknown.

        Where bytes are not counted, by the time since the epoch began: one that takes longer than the mean may end at any
        time, and is not the next one. Before an incarnation has ended an epoch, they are counted from where it went on.
        """
        left = self.readings.left_ms(job, at_ms)
        seen = job.epochs_seen
        if left is not None or seen is None or not seen.epoch_ms:
            return left
        began_ms = seen.ended_ms
        if began_ms is None:
            incarnation, began_ms = self.resumed.get(job.name, (None, 0))
            if incarnation != job.incarnation:
                return None
        gone_ms = max(at_ms - began_ms, 0)
        return round(seen.epoch_ms - gone_ms) if gone_ms <= seen.epoch_ms else None

    def knows_suspension(self, job: Job, epoch_left_ms: int | None) -> bool:
        """Whether anything was seen from which the suspension of a job can be predicted."""
        return epoch_left_ms is not None or bool(self._known(job.spec.model).suspensions)

    def knows_resumption(self, job: Job) -> bool:
        """Likewise for a resumption."""
        seen, everyone = job.epochs_seen, self.models.get("")
        is_measured = everyone is not None and bool(everyone.resumptions)
        return is_measured or (seen is not None and seen.load_ms is not None)

    def _of(self, model: str) -> ModelOverheads:
        found = self.models.pop(model, None) or ModelOverheads()
        self.models[model] = found
        if len(self.models) > MODELS_KEPT:
            del self.models[next(name for name in self.models if name)]
        return found

    def _known(self, model: str) -> ModelOverheads:
        found = self.models.get(model) if model else None
        if found is None or not found.suspensions:
            found = self.models.get("")
        return found or ModelOverheads()


def _saves_at_steps(seen: Sequence[SuspensionSeen]) -> bool:
    """Whether the suspensions of a model were nearer to a constant than to the end of the epoch and a constant."""
    both = [(one.epoch_left_ms, one.took_ms) for one in seen if one.epoch_left_ms is not None]
    if not both:
        return False
    if len(both) == 1:
        left, took = both[0]
        return took < left / 2
    at_once = median(took for _, took in both)
    after = median(took - left for left, took in both)
    return median(abs(took - at_once) for _, took in both) < median(abs(took - left - after) for left, took in both)


def _weighted_median(weighted: Sequence[tuple[float, float]], otherwise: float) -> float:
    """The weighted median: one suspension that came out far from its prediction changes those of the next ones little."""
    left = sum(weight for weight, _ in weighted) / 2
    for weight, value in sorted(weighted, key=itemgetter(1)):
        left -= weight
        if left <= 0:
            return value
    return otherwise


def _line(seen: Sequence[ResumptionSeen], alone_ms: float | None = None) -> tuple[float, float]:
    """A and r of took = a + r·readers, neither negative, by weighted least squares.

    Where all had as many readers, r is ``alone_ms``, the time to read alone at the storage's bandwidth; None: half of all.
    """
    rows = [(FORGET**age, one.readers, one.took_ms) for age, one in enumerate(reversed(seen))]
    weight = sum(one for one, *_ in rows)
    mean_n = sum(one * n for one, n, _ in rows) / weight
    mean_took = sum(one * took for one, _, took in rows) / weight
    spread = sum(one * (n - mean_n) ** 2 for one, n, _ in rows)
    if spread < 1e-9:  # noqa: PLR2004 - rounding
        if not mean_n:
            return mean_took, 0.0
        shared = mean_took / 2 / mean_n if alone_ms is None else min(alone_ms, mean_took / mean_n)
        return mean_took - shared * mean_n, shared
    shared = sum(one * (n - mean_n) * (took - mean_took) for one, n, took in rows) / spread
    fixed = mean_took - shared * mean_n
    if shared < 0:
        return mean_took, 0.0
    if fixed < 0:
        return 0.0, sum(one * n * took for one, n, took in rows) / sum(one * n * n for one, n, _ in rows)
    return fixed, shared

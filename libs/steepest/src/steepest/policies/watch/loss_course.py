"""Watches one training's loss: not finite, above its start for long, far above its own scale, or no better for long.

A loss that should rise is negated before. Time is counted in steps, or in values where no step is known, so that a replay
finds the same. The constants were chosen on one half of public training curves and hold on the other: 97 % of the
runs of TaskSet that diverge are found within a tenth of their length, and 0.7 % of the others are called diverged
(``docs/watching.md``).

The state is bounded: the newest 31 values, and the whole run in at most 32 blocks. After ``THINNED_AFTER`` values ordinary
ones are averaged by ``THINNED_BY``; one that is out of the ordinary is judged immediately.
"""

from __future__ import annotations

import math

import msgspec

from steepest.events.growth import FindingKind
from steepest.policies.watch.robust import Newest, RunBlocks

NEWEST = 31
NOT_FINITE = 3
"""Values in a row that are not finite: a scaler of mixed precision makes one of them on purpose."""

MARGIN = 0.05
"""A value is above the start if it is so by this share of it."""

ABOVE_LEAST = 5
"""Values above the start, at least."""

LONG_SHARE, LONG_STEPS, LONG_SEEN = 0.05, 200, 0.5
"""They last for this share of the total; where it is unknown, for so many steps and this share of all that was seen."""

SURE = 4.0
"""Standard errors by which their median is above the start."""

FAR = 30.0
"""So many times the start above it, five values are enough."""

SPIKE, SPIKE_SHARE, SPIKE_ENDS, SPIKE_LASTS = 10.0, 0.1, 2.0, 16
"""A spike is above the median by so many interquartile ranges and by this share of it. It ends below so many ranges; after
so many values it is a new level."""

FLAT, FLAT_SEEN, FLAT_VALUES = 0.25, 0.67, 10
"""No better block for this share of the total, or of what was seen, and for so many values."""

STUCK, STUCK_VALUES = 0.35, 20
"""Share of the total after which the start must be beaten; values, where the total is unknown."""

BLIND_STEPS = 1_000
"""Steps without a total before a loss is called flat; twice as many before it is called stuck."""

BETTER, TRIFLE = 3.0, 0.01
"""A better block is better by so many standard errors, and by this share of what was gained."""

LEARNED = 0.03
"""A loss has learned at all if it is below its start by this share."""

GIVEN_BACK = 0.5
"""Share of what was gained that a lost training has given back."""

BLOCKS_LEAST = 8
THINNED_AFTER, THINNED_BY = 256, 16

SAID_MOST = 100
"""Findings of a job after which nothing more is said of its losses: each stays in the log, and a job can print anything."""

NOISE_OVER, CLIPPED_FROM = 16, 5
_TO_SIGMA = 1.13
"""Mean difference of neighbours, in standard deviations."""

_TO_SPREAD = 1.7
"""Distance of the quartiles, in mean distances from the mean."""

_FINITE = 1e300


class LossChange(msgspec.Struct, frozen=True, gc=False):
    """Something is found, or over.

    Attributes:
        since: The step since when.
        is_over: Whether it ends here.
    """

    kind: FindingKind
    since: float
    why: str
    figures: dict[str, float] = {}
    is_over: bool = False


class LossSpike(msgspec.Struct, gc=False):
    """A spike that is not over: the value below which it is, and its values so far."""

    back: float
    values: int = 0


class LossWatch(msgspec.Struct, kw_only=True, gc=False):
    """What is remembered of one training's loss.

    Attributes:
        count: Finite values judged so far.
        bad: Values in a row that are not finite; since ``bad_since``.
        start: The first value.
        lowest: The smallest so far.
        last: The newest one.
        noise: Typical difference of neighbours.
        above: Values above the start, less two for each below; since ``above_since``, the ``above_at``-th value.
        open: What was found and is not over.
        said: How many findings so far.
        single: Mean distance of single values from the mean of those before, once these are averaged.
        ordinary: A value below this waits to be averaged with ``held`` others of sum ``held_total``.
    """

    count: int = 0
    bad: int = 0
    bad_since: float = 0.0
    start: float | None = None
    lowest: float = 0.0
    last: float = 0.0
    noise: float | None = None
    newest: Newest = msgspec.field(default_factory=lambda: Newest(NEWEST))
    above: int = 0
    above_at: int = 0
    above_since: float = 0.0
    spike: LossSpike | None = None
    blocks: RunBlocks = msgspec.field(default_factory=RunBlocks)
    open: dict[FindingKind, None] = {}
    said: int = 0
    single: float | None = None
    ordinary: float | None = None
    held: int = 0
    held_total: float = 0.0

    def add(self, step: float, value: float, total: int | None) -> list[LossChange]:
        """Judge a value. Work: O(1) amortised, and next to nothing for an ordinary one.

        Args:
            step: Where the training is; it may go back.
            value: NaN and infinities included.
            total: The steps of the whole training, if they are known.
        """
        if self.passes(value):
            return []
        if self.ordinary is not None and value < self.ordinary:
            self._hear_single(value)
            value, self.held, self.held_total = (self.held_total + value) / THINNED_BY, 0, 0.0
        out: list[LossChange] = []
        self._judge(out, step, value, total)
        return out

    def passes(self, value: float) -> bool:
        """Whether this value is ordinary and waits for others: nothing more must be done about it."""
        if self.ordinary is None or not value < self.ordinary or self.held == THINNED_BY - 1:
            return False
        self.held += 1
        self.held_total += value
        return True

    def begin_incarnation(self) -> None:
        """What was found counts no longer for the process that runs now; it is said again if it still holds."""
        self.open = {}

    def _judge(self, out: list[LossChange], step: float, value: float, total: int | None) -> None:
        if not math.isfinite(value):
            self._not_finite(out, step)
            return
        self.bad = 0
        self.count += 1
        self._hear_noise(value)
        began = self.spike is None
        self._spikes(out, step, value)
        if self.spike is None or began:
            self.newest.add(value)
        self.lowest = value if self.start is None else min(self.lowest, value)
        self.last = value
        if self.start is None:
            self.start = value
        else:
            self._against_start(out, step, value, self.start, total)
        if self.blocks.add(step, value) and self.noise is not None and self._may_be_flat(step, total):
            self._against_best(out, step, self.start, self.noise / _TO_SIGMA, total)
        if self.count > THINNED_AFTER:
            self._thin()

    def _may_be_flat(self, step: float, total: int | None) -> bool:
        """Whether the blocks can show anything; before, to look at them costs more than all the rest."""
        if len(self.blocks.rows) < BLOCKS_LEAST:
            return False
        return bool(self.open) or step - self.blocks.rows[0].first >= (LONG_SHARE * total if total else BLIND_STEPS)

    def _opens(self, out: list[LossChange], kind: FindingKind, since: float, why: str, **figures: float) -> None:
        if kind not in self.open and self.said < SAID_MOST:
            self.open = {**self.open, kind: None}
            self.said += 1
            out.append(LossChange(kind, since, why, figures))

    def _ends(self, out: list[LossChange], kind: FindingKind, step: float, why: str) -> None:
        if kind in self.open:
            self.open = {each: None for each in self.open if each is not kind}
            out.append(LossChange(kind, step, why, is_over=True))

    def _not_finite(self, out: list[LossChange], step: float) -> None:
        if not self.bad:
            self.bad_since = step
        self.bad += 1
        if self.bad >= NOT_FINITE:
            why = (
                f"its loss is not finite since step {self.bad_since:.0f}"
                if self.bad_since
                else "its loss is not finite"
            )
            last = f"; the last finite one was {self.last:.4g}" if self.count else ""
            self._opens(out, FindingKind.DIVERGED, self.bad_since, why + last, values=self.bad)

    def _hear_noise(self, value: float) -> None:
        """A running mean of differences, each clipped at four times the mean so far."""
        if self.start is None:
            return
        difference = abs(value - self.last)
        if self.noise is None:
            self.noise = difference
            return
        weight = max(1 / self.count, 1 / NOISE_OVER)
        clipped = difference if self.count < CLIPPED_FROM else min(difference, 4 * self.noise)
        self.noise += weight * (clipped - self.noise)

    def _spikes(self, out: list[LossChange], step: float, value: float) -> None:
        """Against the newest values as they were before this one; a level that stays is a new one, and no spike."""
        newest, spike = self.newest, self.spike
        if spike is None:
            if len(newest.ordered) < NEWEST // 2:
                return
            median, spread = self._usual()
            if value <= median + max(SPIKE * spread, SPIKE_SHARE * abs(median)):
                return
            back = median + SPIKE_ENDS * max(spread, 0.02 * abs(median))
            self.spike = spike = LossSpike(back)
            why = f"its loss rose from {median:.4g} to {value:.4g} at step {step:.0f}"
            self._opens(out, FindingKind.SPIKE, step, why, peak=value, median=median)
        spike.values += 1
        if value <= spike.back:
            self.spike = None
            self._ends(out, FindingKind.SPIKE, step, f"its loss is back at {value:.4g} after {spike.values} values")
        elif spike.values >= SPIKE_LASTS:
            self.spike = None
            newest.clear()
            self._ends(out, FindingKind.SPIKE, step, f"its loss stays at a new level, {value:.4g}")

    def _against_start(self, out: list[LossChange], step: float, value: float, start: float, total: int | None) -> None:
        scale = max(abs(start), start - self.lowest)
        if value <= start + MARGIN * scale:
            self.above = max(0, self.above - 2)  # a value below outweighs two above
            if self.open and not self.above:
                self._ends(out, FindingKind.DIVERGED, step, f"its loss is back at {value:.4g}; it began at {start:.4g}")
            return
        if not self.above:
            self.above_at, self.above_since = self.count, step
        self.above += 1
        if self.above < ABOVE_LEAST or FindingKind.DIVERGED in self.open:
            return
        last = self.newest.last(ABOVE_LEAST)
        is_far = self.spike is None and len(last) == ABOVE_LEAST and min(last) > start + FAR * scale
        if not is_far and not self._lasts(step - self.above_since, self.count - self.above_at + 1, total):
            return
        median = self.newest.median if len(self.newest.ordered) >= ABOVE_LEAST else value
        error = (self.noise or 0.0) / math.sqrt(min(self.above, NEWEST))
        if median - start > SURE * error:
            why = f"its loss is at {median:.4g} since step {self.above_since:.0f}; it began at {start:.4g}"
            figures = {"start": start, "median": median, "noise": self.noise or 0.0, "values": self.above}
            self._opens(out, FindingKind.DIVERGED, self.above_since, why, **figures)

    def _lasts(self, steps: float, values: int, total: int | None) -> bool:
        if total:
            return steps >= LONG_SHARE * total
        return steps >= LONG_STEPS and values >= LONG_SEEN * self.count

    def _against_best(self, out: list[LossChange], step: float, start: float, sigma: float, total: int | None) -> None:
        """Whether any block was better than those before it, asked once a block is complete."""
        rows, best, at = self.blocks.rows, math.inf, 0
        for number, block in enumerate(rows):
            gained = max(0.0, start - best)
            need = max(BETTER * sigma / math.sqrt(block.count), TRIFLE * gained) if number else 0.0
            if block.mean < best - need:
                best, at = block.mean, number
        since = rows[at + 1].first if at + 1 < len(rows) else step
        after, seen = sum(row.count for row in rows[at + 1 :]), sum(row.count for row in rows)
        error = sigma / math.sqrt(rows[at].count)
        if best >= start - max(LEARNED * abs(start), 2 * error):
            self._ends(out, FindingKind.PLATEAU, step, "its loss is back where it began")
            self._ends(out, FindingKind.LOST, step, "its loss is back where it began")
            self._has_learned_nothing(out, step, start, seen, total)
            return
        self._ends(out, FindingKind.STUCK, step, f"its loss has fallen to {best:.4g}")
        steps = step - since
        is_long = steps >= LONG_SHARE * total if total else after >= LONG_SEEN * seen and steps >= BLIND_STEPS
        tail = rows[-max(3, len(rows) // 8) :]
        gained = start - best
        gave_back = min(row.mean for row in tail) > best + GIVEN_BACK * gained
        if gained > 6 * error and after >= FLAT_VALUES and gave_back and is_long:
            if FindingKind.DIVERGED not in self.open:
                why = f"its loss was {best:.4g} until step {since:.0f}, and is {tail[-1].mean:.4g}"
                figures = {"start": start, "best": best, "now": tail[-1].mean, "values": after}
                self._opens(out, FindingKind.LOST, since, why, **figures)
        else:
            self._ends(out, FindingKind.LOST, step, f"its loss is at {tail[-1].mean:.4g} again")
        is_flat = steps >= FLAT * total if total else after >= FLAT_SEEN * seen and steps >= BLIND_STEPS
        if not is_flat or after < FLAT_VALUES:
            self._ends(out, FindingKind.PLATEAU, step, f"its loss has fallen to {best:.4g}")
        elif FindingKind.DIVERGED not in self.open and FindingKind.LOST not in self.open:
            why = f"its loss has not fallen below {best:.4g} since step {since:.0f}"
            self._opens(out, FindingKind.PLATEAU, since, why, best=best, noise=sigma, values=after)

    def _has_learned_nothing(
        self, out: list[LossChange], step: float, start: float, seen: int, total: int | None
    ) -> None:
        first = self.blocks.rows[0].first
        steps = step - first
        is_long = steps >= STUCK * total if total else seen >= STUCK_VALUES and steps >= 2 * BLIND_STEPS
        if is_long and seen >= FLAT_VALUES and FindingKind.DIVERGED not in self.open:
            why = f"its loss has not fallen since step {first:.0f}, where it was {start:.4g}"
            self._opens(out, FindingKind.STUCK, first, why, start=start, values=seen)
        elif not is_long:
            self._ends(out, FindingKind.STUCK, step, "its loss moves")

    def _hear_single(self, value: float) -> None:
        """A running mean, as that of the noise; of one in so many values."""
        away = abs(value - self.held_total / (self.held or 1))
        if self.single is not None and math.isfinite(away):
            self.single += ((min(away, 4 * self.single) if self.single else away) - self.single) / NOISE_OVER

    def _usual(self) -> tuple[float, float]:
        """The level of single values, and the distance of their quartiles. Means are calmer, and reach back for long."""
        if self.single is None:
            return self.newest.median, self.newest.spread
        return min(self.newest.median, self.last), _TO_SPREAD * self.single

    def _thin(self) -> None:
        """The bar of an ordinary value."""
        newest = self.newest
        if self.single is None:
            self.single = min(newest.spread, _FINITE) / _TO_SPREAD
        if len(newest.ordered) < NEWEST // 2 or self.bad or self.spike is not None:
            self.ordinary = None
        else:
            level, spread = self._usual()
            self.ordinary = level + SPIKE * spread

"""The duration of moves: learned online from measured ones, and predicted from the size of the checkpoint.

A move has two parts. *Leaving* the source is from the decision until the process has saved and ended, *arriving* at the
target from there to the first step. Each takes a fixed time, which the job's model determines, and a time for each
byte, which the node determines: a node reads and writes the volume over a link of its own. Both are fitted to the
newest moves of the pool by the relative errors, neither negative:

    took = fixed + per_byte(node) · bytes

Old moves count less. While all moves of every node had checkpoints of one size, half of the time counts as fixed;
a weak pull towards that stays, so that sizes which hardly differ do not determine a slope. A node that no move has left
or reached yet gets the mean of the others. All of it is a fold over the log; it must never know why a job moves.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

KEPT = 128
"""Moves that are remembered."""

FORGET = 0.9
"""Weight of a move, against the next one from the same node, or to it: the load of a node and of its link changes."""

PULL = 0.01
"""Weight of the assumption that half is fixed, against all moves together."""

USUAL = 0.1
"""An error of this share is usual; of a larger one the size counts and not the square: one slow move is no measure."""

PASSES = 6
"""How often the lines are fitted again with the weights that follow from them."""

LEAST_MS = 1.0


class MoveSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A measured move in which no step was begun again.

    Attributes:
        model: What the job trains; empty where its user does not say.
        size_bytes: Of the checkpoint that it resumed from.
        leaving_ms: From the decision to the end of the process at the source.
        arriving_ms: From there to the first step at the target.
    """

    model: str
    source: str
    target: str
    size_bytes: int
    leaving_ms: int
    arriving_ms: int


class MovePart(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One part of a move, as it was fitted last. Times are in milliseconds.

    Attributes:
        fixed: Of a model without moves.
        fixed_of: By model.
        per_byte: Of a node without moves.
        per_byte_of: By node.
    """

    fixed: float = 0.0
    fixed_of: dict[str, float] = {}
    per_byte: float = 0.0
    per_byte_of: dict[str, float] = {}

    def predict(self, model: str, node: str, size_bytes: int) -> float:
        """How long it takes."""
        return self.fixed_of.get(model, self.fixed) + self.per_byte_of.get(node, self.per_byte) * size_bytes


class MoveCosts(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The duration of moves in a pool.

    Attributes:
        seen: The newest moves, the oldest first.
        leaving: By the node that is left.
        arriving: By the node that is reached.
    """

    seen: list[MoveSeen] = []
    leaving: MovePart = msgspec.field(default_factory=MovePart)
    arriving: MovePart = msgspec.field(default_factory=MovePart)

    def learn(self, move: MoveSeen) -> None:
        """A move was measured. Work: O(``KEPT``), some milliseconds of a processor."""
        self.seen.append(move)
        del self.seen[:-KEPT]
        self.leaving = _fitted([_Measured(one.model, one.source, one.size_bytes, one.leaving_ms) for one in self.seen])
        self.arriving = _fitted(
            [_Measured(one.model, one.target, one.size_bytes, one.arriving_ms) for one in self.seen]
        )

    def predict(self, model: str, source: str, target: str, size_bytes: int) -> int | None:
        """From the decision to the first step at the target; None where nothing is known to predict it from.

        Args:
            model: What the job trains.
            source: Where it is.
            target: Where it would go.
            size_bytes: Of its newest checkpoint; 0: it has none yet, and one as large as its model had last is assumed.
        """
        size_bytes = size_bytes or next(
            (one.size_bytes for one in reversed(self.seen) if model and one.model == model), 0
        )
        if not self.seen or not size_bytes:
            return None
        return round(self.leaving.predict(model, source, size_bytes) + self.arriving.predict(model, target, size_bytes))


class _Measured(msgspec.Struct):
    """One part of a move: how long it took.

    Attributes:
        newness: What it weighs against the newest one of its node.
        weight: What the square of its error weighs.
    """

    model: str
    node: str
    size: int
    took: float
    newness: float = 1.0
    weight: float = 0.0

    def weigh(self, expected: float) -> None:
        """Weigh errors relative to the expected duration, and large ones less than by their squares."""
        off = abs(self.took - expected) / max(expected, LEAST_MS)
        self.weight = self.newness / max(expected, LEAST_MS) ** 2 * min(1.0, USUAL / max(off, USUAL))


class _Sums(msgspec.Struct):
    """Weighted sums over measurements."""

    weight: float = 0.0
    size: float = 0.0
    took: float = 0.0
    squares: float = 0.0
    product: float = 0.0

    def add(self, one: _Measured) -> None:
        weight = one.weight
        self.weight += weight
        self.size += weight * one.size
        self.took += weight * one.took
        self.squares += weight * one.size**2
        self.product += weight * one.size * one.took

    def per_byte(self, fixed: float) -> float:
        """The best slope of a line that begins at ``fixed``."""
        return (self.product - fixed * self.size) / self.squares


def _fitted(measured: Sequence[_Measured]) -> MovePart:
    """Fit lines to measurements, ordered from the oldest to the newest."""
    newness: dict[str, float] = {}
    for one in reversed(measured):
        one.newness = newness.get(one.node, 1.0)
        newness[one.node] = one.newness * FORGET
        one.weigh(one.took)
    part = _lines(measured)
    for _ in range(PASSES):
        for one in measured:
            one.weigh(part.predict(one.model, one.node, one.size))
        part = _lines(measured)
    return part


def _lines(measured: Sequence[_Measured]) -> MovePart:
    """The lines of weighted least squares."""
    everything, of_node = _Sums(), dict[str, _Sums]()
    for one in measured:
        everything.add(one)
        of_node.setdefault(one.node, _Sums()).add(one)
    fixed, flat = 0.0, dict[str, None]()
    while True:
        fixed = _fixed(everything, [(sums, node in flat) for node, sums in of_node.items()])
        falling = [node for node, sums in of_node.items() if node not in flat and sums.per_byte(fixed) < 0]
        if not falling:
            break
        flat.update(dict.fromkeys(falling))
    part = MovePart(
        fixed=fixed,
        per_byte=max(everything.per_byte(fixed), 0.0),
        per_byte_of={node: 0.0 if node in flat else sums.per_byte(fixed) for node, sums in of_node.items()},
    )
    left: dict[str, tuple[float, float]] = {}
    for one in measured:
        weight, total = left.get(one.model, (0.0, 0.0))
        rest = one.took - part.per_byte_of[one.node] * one.size
        left[one.model] = (weight + one.weight, total + one.weight * rest)
    part.fixed_of = {model: max(total / weight, 0.0) for model, (weight, total) in left.items()}
    return part


def _fixed(everything: _Sums, nodes: Sequence[tuple[_Sums, bool]]) -> float:
    """The fixed time that suits all nodes best, where each has the slope that suits it best, or none if it is flat."""
    pull = PULL * everything.weight
    above, below = pull * everything.took / everything.weight / 2, pull
    for sums, is_flat in nodes:
        above += sums.took if is_flat else sums.took - sums.product * sums.size / sums.squares
        below += sums.weight if is_flat else sums.weight - sums.size**2 / sums.squares
    return max(above / below, 0.0)

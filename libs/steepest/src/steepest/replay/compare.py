"""Compares recorded decisions with new ones: stream by stream, id by id, byte by byte.

It owns what counts as a difference. Explanations (``because``) are compared only where the recorded ``logic`` is today's; a
decision beyond the last recorded one of its stream is *not yet recorded*, because the process may have been stopped between
a record and its consequences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from steepest.events.received import DecisionId


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """One decision, made then or now.

    Attributes:
        position: Where it stands (then), or the record that made it (now), as ``topic/partition@offset``.
        offset: The number in ``position``.
    """

    id: DecisionId
    value: bytes
    position: str
    offset: int
    logic: str


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A place where then and now differ; ``recorded`` or ``decided`` is None where there is nothing.

    Attributes:
        position: The record that differs; of a decision that is missing, the record that asks for it.
        why: What kind of difference it is.
    """

    position: str
    offset: int
    decision: str
    why: str
    recorded: Any = None
    decided: Any = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a replay.

    Attributes:
        decisions: How many decisions were made again and compared.
        differences: In how many of them, and of the records, then and now differ.
        not_yet_recorded: Decisions beyond the end of their streams.
        by_decider: Compared decisions of each decider.
        altered: Records that are not as they were written.
        left_out: Partitions whose first records are not recorded; what was decided about them is not compared.
    """

    decisions: int
    differences: int
    first_difference: Difference | None
    not_yet_recorded: int
    by_decider: dict[str, int]
    altered: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def compare(
    then: Mapping[str, Sequence[Decided]],
    now: Mapping[str, Sequence[Decided]],
    altered: Sequence[Difference] = (),
    left_out: tuple[str, ...] = (),
) -> Report:
    """Compare every stream.

    Args:
        then: Recorded decisions by stream, first occurrences in the order of their ids.
        now: Decisions made again, likewise.
        altered: Records that are not as they were written.
        left_out: Partitions that are not compared.
    """
    found: list[Difference] = []
    counted: Counter[str] = Counter()
    unrecorded = 0
    for stream in sorted({*then, *now}):
        made, recorded = now.get(stream, ()), then.get(stream, ())
        last = recorded[-1].id.position if recorded else (-1, -1)
        known = [one for one in made if one.id.position <= last]
        unrecorded += len(made) - len(known)
        counted[stream.split("/", 1)[0]] += len(recorded)
        found.extend(_differences(recorded, known))
    found.sort(key=lambda difference: (difference.offset, difference.decision))
    unexplained = [one for one in altered if one.position not in {difference.position for difference in found}]
    everything = [*found, *unexplained]
    return Report(
        decisions=sum(counted.values()),
        differences=len(everything),
        first_difference=everything[0] if everything else None,
        not_yet_recorded=unrecorded,
        by_decider=dict(sorted(counted.items())),
        altered=tuple(one.position for one in altered),
        left_out=left_out,
    )


def _differences(then: Sequence[Decided], now: Sequence[Decided]) -> Iterator[Difference]:
    recorded = {one.id.position: one for one in then}
    decided = {one.id.position: one for one in now}
    for place in sorted({*recorded, *decided}):
        old, new = recorded.get(place), decided.get(place)
        if old is None and new is not None:
            yield _difference(new, "decided now, and not then", None, new)
        elif new is None and old is not None:
            yield _difference(old, "decided then, and not now", old, None)
        elif old is not None and new is not None and not _same(old, new):
            yield _difference(old, "decided otherwise", old, new)


def _same(old: Decided, new: Decided) -> bool:
    if old.value == new.value:
        return True
    return old.logic != new.logic and _unexplained(old.value) == _unexplained(new.value)


def _unexplained(value: bytes) -> Any:
    try:
        event = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value
    return {name: part for name, part in event.items() if name != "because"} if isinstance(event, dict) else event


def _difference(where: Decided, why: str, old: Decided | None, new: Decided | None) -> Difference:
    return Difference(
        position=where.position,
        offset=where.offset,
        decision=str(where.id),
        why=why,
        recorded=None if old is None else readable(old.value),
        decided=None if new is None else readable(new.value),
    )


def readable(value: bytes) -> Any:
    """A record's value for a report: its JSON, or the bytes as text where it is none, or nested too deep to be read."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value.decode("utf-8", "replace")

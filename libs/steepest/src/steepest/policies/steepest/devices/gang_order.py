"""In which order gangs take the devices of one pool, and which promises must be put off for that. Pure.

1. *Promises.* A gang is due a small share of its completion time after its fair end. Where that cannot be kept any more,
   it is due at the next of :data:`TIERS`. Where the gangs that must run now do not fit together, the largest one is put off,
   and again until they fit (Moore, *Management Science* 1968: the fewest late jobs).
2. *Must run.* Work as late as possible (:mod:`steepest.policies.steepest.must_run`), devices as a fluid, and once more for
   gangs of more than 1/k of the devices, of which only k - 1 run at a time. In the order of due times: an order by amounts
   would change while they run, and gangs would take turns.
3. *Deadlines* of users that are met only by starting now.
4. *Tail.* A gang that takes longer than the whole backlog of the pool would, were it divided among all devices, ends last
   in any case: it runs immediately, or the makespan grows. While gangs still come, the backlog grows too, and it waits.
5. *Index.* The value of a second of the gang, the running ones preferred by what a stop costs.

Work: O(n log n) for n gangs, for each of at most ``ROUNDS`` rounds; without overload there is one.
"""

from __future__ import annotations

import bisect
import enum
import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from steepest.policies.steepest.must_run import Promise, must_run

TIERS = (1.0, 1.45, 1.8, 2.4, 3.5, 6.0)
"""Multiples of the promised completion time at which a gang is due that cannot be in time. Behind the last, nothing is
promised. The first step is long: a gang that is late anyway makes room, and others are in time."""

RESCUED = 2
"""A gang that was put off so often goes before all others."""

SPARED = 4.0
"""A gang counts as so many times smaller for each time that it was put off, when the next one is chosen."""

ROUNDS = 12
"""How often promises are put off in one decision."""

MARGIN = 0.02
"""Remaining time is taken to be this much longer."""

WASTE = 0.03
"""Share of the devices that whole gangs leave idle."""

MUST = 0.05
"""A gang must run of which more than this share of the next slot does not fit after it."""

OVER = 0.25
"""Promises are put off where more than this share of a slot is late beyond it: the fluid is no packing of whole gangs."""

CLASSES = (2, 3, 4)

KEEP = 1.3
"""The index of a running gang counts this much more, beside what its stop and its next start cost."""

HOLDS = 30.0
"""A gang that could not pause for this many times the cost of a stop and a start is not stopped: it would be urgent soon."""

STAYS = 0.1
"""A running gang stays the longest though the backlog has grown beyond it by this share: it would be that again soon."""

STILL_COME = 5.0
"""Gangs still come until none came for so many times the mean time between those that wait or run."""


class Turn(enum.StrEnum):
    """Why a gang has its place in the order."""

    RUNS = "it runs, and may not be stopped now"
    MUST = "it would be late if it waited"
    DEADLINE = "it meets its deadline only if it runs now"
    TAIL = "it takes longer than all that waits"
    INDEX = "work on it is worth most"


class WholeGang(msgspec.Struct, frozen=True, kw_only=True):
    """A gang that waits or runs. Times are seconds from now.

    Attributes:
        left_s: How long it still runs with its devices; None: unknown.
        most_s: The same at worst, as far as its pace varies.
        start_s: Until it works once it has devices; 0: it runs.
        stop_s: What its stop and its next start cost.
        came_s: When it was submitted; not above 0.
        fair_end_s: Its end under fair sharing; None: nothing says when.
        tier: How often its promise was put off.
        index: What a second of its devices is worth.
        deadline_s: When its user wants it to have ended; None: its user does not say.
        pinned: Whether it holds its devices, and may not be stopped now.
    """

    name: str
    devices: float
    left_s: float | None
    most_s: float = 0.0
    start_s: float = 0.0
    stop_s: float = 0.0
    came_s: float = 0.0
    fair_end_s: float | None = None
    tier: int = 0
    index: float = 0.0
    priority: int = 0
    deadline_s: float | None = None
    runs: bool = False
    pinned: bool = False

    @property
    def need_s(self) -> float:
        """Until it ends if it gets devices now."""
        return (self.left_s or 0.0) * (1 + MARGIN) + self.start_s

    @property
    def rank(self) -> float:
        """Its index; of a running one with what a stop would lose."""
        if not self.runs:
            return self.index
        left, cost = self.left_s, self.stop_s
        saved = 1.0 if left is None else left / (left - cost) if left > cost else math.inf
        return self.index * max(KEEP, saved)

    def due_s(self, tier: int, lateness: float) -> float:
        """When it is due at a tier; infinite behind the last one, and where nothing says when it would end."""
        if self.fair_end_s is None or tier >= len(TIERS):
            return math.inf
        return self.came_s + TIERS[tier] * (1 + lateness) * max(self.fair_end_s - self.came_s, 1.0)


class Promised(msgspec.Struct):
    """What is promised to the gangs, in their order.

    Attributes:
        tiers: How often each was put off, after this decision.
        dues: When each is due.
        late: Seconds of each that do not fit after the slot.
        stays: Seconds of each that would not fit if it paused for :data:`HOLDS` times the cost of a stop and a start.
    """

    tiers: list[int]
    dues: list[float]
    late: list[float]
    stays: list[float]


def slot_of(gangs: Sequence[WholeGang], longest_s: float, least_s: float) -> float:
    """How long a decision holds, in seconds: what is due within a slot counts as due at its end, so no gang that waits is.

    Args:
        gangs: All that wait or run.
        longest_s: Holds where all that wait are longer.
        least_s: Between two decisions.
    """
    needs = (one.need_s for one in gangs if not one.runs and one.left_s is not None)
    return max(least_s, min([longest_s, *needs]))


def by_level(attained: float, levels: Sequence[float]) -> float:
    """The index of a gang of unknown size: all in a level have the same, and it falls from one to the next (Tiresias).

    Args:
        attained: Its device-seconds so far.
        levels: The device-seconds at which it comes to the next level.
    """
    return 1 / [*levels, 2 * levels[-1]][bisect.bisect_right(levels, attained)]


def promise(gangs: Sequence[WholeGang], devices: float, slot_s: float, lateness: float) -> Promised:
    """Due times that can be kept together.

    Args:
        gangs: All that wait or run.
        devices: Of the pool, above 0.
        slot_s: How long the decision holds.
        lateness: A share of the completion time.
    """
    found = Promised([one.tier for one in gangs], [math.inf] * len(gangs), [], [])
    pause_s = HOLDS * max((one.stop_s for one in gangs), default=0.0)

    def put(index: int) -> None:
        gang = gangs[index]
        while (due := gang.due_s(found.tiers[index], lateness)) < gang.need_s:
            found.tiers[index] += 1
        found.dues[index] = due

    for index in range(len(gangs)):
        put(index)
    for _ in range(ROUNDS):
        late, stays = _late(gangs, found.dues, devices, slot_s, pause_s)
        found.late, found.stays = late, stays
        over = sum(min(one, slot_s) * gang.devices for one, gang in zip(late, gangs, strict=True)) - devices * slot_s
        if over <= OVER * devices * slot_s and max(late, default=0.0) <= (1 + OVER) * slot_s:
            break
        urgent = [index for index, one in enumerate(late) if one > MUST * slot_s]
        if not urgent:
            break
        index = max(urgent, key=lambda index: _burden(gangs[index], found.tiers[index]))
        found.tiers[index] += 1
        put(index)
    else:
        found.stays = _late(gangs, found.dues, devices, slot_s, pause_s)[1]
    return found


def _burden(gang: WholeGang, tier: int) -> float:
    """How much room it makes that a gang is put off; one that runs, or was put off before, is spared."""
    return float(gang.need_s * gang.devices * (0.5 if gang.runs else 1.0) / SPARED**tier)


def _late(
    gangs: Sequence[WholeGang], dues: Sequence[float], devices: float, slot_s: float, pause_s: float
) -> tuple[list[float], list[float]]:
    """Seconds of each gang that do not fit after the slot, and after a pause, if that is longer."""
    late, stays = [0.0] * len(gangs), [0.0] * len(gangs)

    def take(among: Sequence[int], capacity: float, demand: Callable[[int], float]) -> None:
        promises = [Promise(gangs[index].need_s * demand(index), demand(index), dues[index]) for index in among]
        found = must_run(promises, capacity, slot_s, pause_s)
        for index, seconds, longer in zip(among, found.seconds, found.longer or found.seconds, strict=True):
            late[index], stays[index] = max(late[index], seconds), max(stays[index], longer)

    due = [index for index, at_s in enumerate(dues) if at_s < math.inf]
    take(due, devices * (1 - WASTE), lambda index: min(gangs[index].devices, devices))
    for k in CLASSES:
        large = [index for index in due if gangs[index].devices * k > devices]
        if len(large) >= k:
            take(large, k - 1.0, lambda _: 1.0)
    return late, stays


def in_turn(
    gangs: Sequence[WholeGang], promised: Promised, devices: float, slot_s: float, *, hold: bool = True
) -> Iterator[tuple[int, Turn]]:
    """The gangs in the order in which they take devices, the pinned ones left out, each once.

    Args:
        gangs: All that wait or run.
        promised: To them (:func:`promise`).
        devices: Of the pool.
        slot_s: How long the decision holds.
        hold: Whether a running gang is kept that could not pause for long; it needs not be looked for where none is stopped.
    """
    given = [one.pinned for one in gangs]
    turns = [
        (Turn.MUST, _must(gangs, promised, slot_s, hold=hold)),
        (Turn.DEADLINE, _for_deadlines(gangs, slot_s)),
        (Turn.TAIL, _tail(gangs, devices, slot_s)),
        (Turn.INDEX, sorted(range(len(gangs)), key=lambda index: (-gangs[index].priority, -gangs[index].rank))),
    ]
    for turn, indexes in turns:
        for index in indexes:
            if not given[index]:
                given[index] = True
                yield index, turn


def _must(gangs: Sequence[WholeGang], promised: Promised, slot_s: float, *, hold: bool) -> Sequence[int]:
    """The gangs that must run, the earliest due one first: an order that stays while they run."""
    stays = promised.stays if hold else promised.late

    def is_rescued(index: int) -> bool:
        return (
            promised.tiers[index] >= RESCUED and gangs[index].left_s is not None
        )  # else it said too little, and goes on

    def must(index: int) -> bool:
        gang, enough = gangs[index], MUST * min(slot_s, gangs[index].left_s or slot_s)
        late = promised.late[index] > enough or (gang.runs and stays[index] > enough)
        return late or is_rescued(index)

    def key(index: int) -> tuple[int, bool, float, bool, float]:
        gang = gangs[index]
        return -gang.priority, not is_rescued(index), promised.dues[index], not gang.runs, gang.left_s or 0.0

    return sorted(filter(must, range(len(gangs))), key=key)


def _for_deadlines(gangs: Sequence[WholeGang], slot_s: float) -> Sequence[int]:
    """Those that meet their user's deadline if they run now, and not if they wait for another slot."""
    slack = [math.inf if one.deadline_s is None or one.left_s is None else one.deadline_s - one.need_s for one in gangs]
    return sorted((index for index, one in enumerate(slack) if 0 <= one < slot_s), key=slack.__getitem__)


def _tail(gangs: Sequence[WholeGang], devices: float, slot_s: float) -> Sequence[int]:
    """Those that are too long to wait for another slot, if all is to end when it could; none while gangs still come."""
    newest_s, oldest_s = (-reach((one.came_s for one in gangs), default=0.0) for reach in (max, min))
    if newest_s * (len(gangs) - 1) < STILL_COME * (oldest_s - newest_s):
        return []
    needs = [0.0 if one.left_s is None else max(one.most_s, one.left_s) * (1 + MARGIN) + one.start_s for one in gangs]
    backlog_s = sum((one.left_s or 0.0) * one.devices for one in gangs) / devices
    end_s = max(backlog_s, *heapq.nlargest(1, needs), 0.0)

    def is_too_long(index: int) -> bool:
        spare_s = STAYS * needs[index] if gangs[index].runs else 0.0
        return needs[index] > max(end_s - slot_s - spare_s, 0.0)

    return sorted(
        filter(is_too_long, range(len(gangs))),
        key=lambda index: (-gangs[index].priority, -needs[index]),
    )


def divide(
    gangs: Sequence[WholeGang], turns: Iterable[tuple[int, Turn]], take: Callable[[int], bool]
) -> dict[int, Turn]:
    """Let the gangs take devices in their order; those that do not fit are passed over.

    Where one has no room that must run, what becomes free is for it: nothing new starts behind it that is not more urgent.

    Args:
        gangs: As for :func:`in_turn`.
        turns: Their order.
        take: Gives a gang its devices, if there is room for it.

    Returns:
        Those that have devices, and why, in their order.
    """
    chosen: dict[int, Turn] = {}
    reserved = -math.inf
    for index, turn in turns:
        gang = gangs[index]
        if turn is not Turn.MUST and not gang.runs and gang.priority <= reserved:
            continue
        if take(index):
            chosen[index] = turn
        elif turn is Turn.MUST and not gang.runs:
            reserved = max(reserved, gang.priority)
    return chosen

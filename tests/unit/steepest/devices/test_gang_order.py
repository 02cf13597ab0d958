"""The order in which whole gangs take devices, and the promises that it keeps or puts off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled

from steepest.policies.steepest.devices.gang_order import (
    TIERS,
    Promised,
    Turn,
    WholeGang,
    divide,
    in_turn,
    promise,
    slot_of,
)

SLOT_S = 60.0
LATENESS = 0.03


def gang(name: str, devices: float, left_s: float | None, **more: Any) -> WholeGang:
    """A gang by whose index the shortest comes first, and to which nothing is promised."""
    return WholeGang(name=name, devices=devices, left_s=left_s, **{"index": 1 / (left_s or 1e6), **more})


def decided(gangs: Sequence[WholeGang], devices: float) -> tuple[dict[str, Turn], Promised]:
    """Who has devices, and why; and what is promised."""
    promised = promise(gangs, devices, SLOT_S, LATENESS)
    free = devices - sum(one.devices for one in gangs if one.pinned)

    def take(index: int) -> bool:
        nonlocal free
        fits = gangs[index].devices <= free
        free -= gangs[index].devices if fits else 0.0
        return fits

    chosen = divide(gangs, in_turn(gangs, promised, devices, SLOT_S), take)
    return {gangs[index].name: turn for index, turn in chosen.items()}, promised


def test_the_shortest_first_and_those_that_do_not_fit_are_passed_over() -> None:
    """Nothing is promised and no job is longer than the backlog: the index decides, and what has no room is skipped."""
    chosen, _ = decided([gang("long", 1, 900), gang("wide", 4, 500), gang("short", 3, 400), gang("more", 1, 950)], 4)

    assert list(chosen) == ["short", "long"]


def test_a_gang_that_would_be_late_comes_before_shorter_ones() -> None:
    """It is due so soon that it cannot wait for another slot."""
    chosen, _ = decided([gang("short", 4, 100), gang("due", 4, 1_000, came_s=-500, fair_end_s=1_000)], 4)

    assert chosen == {"due": Turn.MUST}


def test_the_longest_runs_when_all_else_would_end_before_it() -> None:
    """It takes longer than the whole backlog on all devices, so that it ends last in any case."""
    chosen, _ = decided([gang("tail", 1, 5_000), *(gang(f"short-{n}", 1, 100) for n in range(4))], 4)

    assert chosen["tail"] is Turn.TAIL
    assert len(chosen) == 4


def test_the_longest_waits_while_gangs_still_come() -> None:
    """One a minute: the backlog grows meanwhile. It runs once none came for five minutes."""

    def chosen_after(pause_s: float) -> dict[str, Turn]:
        short = [gang(f"short-{n}", 1, 100, came_s=-pause_s - 60 * n) for n in range(4)]
        return decided([gang("tail", 1, 5_000, came_s=-pause_s - 240), *short], 4)[0]

    assert "tail" not in chosen_after(290)
    assert chosen_after(310)["tail"] is Turn.TAIL


def test_a_deadline_is_met_that_would_be_missed_by_waiting() -> None:
    """The user's deadline leaves less than a slot; a deadline that is missed in any case changes nothing."""
    met, _ = decided([gang("short", 4, 300), gang("asked", 4, 400, deadline_s=430)], 4)
    missed, _ = decided([gang("short", 4, 300), gang("asked", 4, 400, deadline_s=200)], 4)

    assert met == {"asked": Turn.DEADLINE}
    assert list(missed) == ["short"]


def test_the_more_urgent_first() -> None:
    """Priority goes before the index."""
    chosen, _ = decided([gang("short", 4, 300), gang("urgent", 4, 400, priority=5)], 4)

    assert list(chosen) == ["urgent"]


def test_a_running_gang_is_stopped_only_where_it_pays() -> None:
    """One that ends nearly as soon as the other keeps its devices; one that takes far longer gives way."""
    near, _ = decided([gang("runs", 4, 110, runs=True, stop_s=5), gang("waits", 4, 100, start_s=5)], 4)
    far, _ = decided([gang("runs", 4, 1_000, runs=True, stop_s=5), gang("waits", 4, 400, start_s=5)], 4)

    assert list(near) == ["runs"]
    assert list(far) == ["waits"]


def test_what_cannot_be_kept_for_all_is_put_off_for_the_largest() -> None:
    """Two gangs of all devices are due at the same time: one is promised a later end, which the tiers show."""
    both = [gang(name, 4, left_s, came_s=-100, fair_end_s=500) for name, left_s in (("small", 300), ("large", 400))]
    chosen, promised = decided(both, 4)

    assert promised.tiers[1] > promised.tiers[0]
    assert list(chosen) == ["small"]


def test_gangs_shorter_than_a_slot_are_promised_what_can_be_kept() -> None:
    """Five of ten seconds, due at nearly the same time, run two at a time; a slot ends before any of them could."""
    runs = gang("long", 4, 33, runs=True, stop_s=6, came_s=-18, fair_end_s=55)
    gangs = [runs, *(gang(f"g{n}", 2, 7, start_s=3, came_s=-10, fair_end_s=11 + 0.2 * n) for n in range(5))]
    slot_s = slot_of(gangs, SLOT_S, 1.0)
    promised = promise(gangs, 4, slot_s, LATENESS)
    ends = [one.need_s * (1 + number // 2) for number, one in enumerate(gangs[1:])]

    assert slot_s == min(one.need_s for one in gangs[1:])
    assert all(due > 0.9 * end for due, end in zip(sorted(promised.dues[1:]), ends, strict=True))
    assert max(promise(gangs, 4, SLOT_S, LATENESS).dues[1:]) < ends[2]
    assert slot_of([runs, gang("waits", 1, 7_000), gang("unknown", 1, None)], SLOT_S, 1.0) == SLOT_S
    assert slot_of([gang("waits", 1, 0.1)], SLOT_S, 1.0) == 1.0


def test_nothing_new_starts_before_a_gang_that_must_run_and_has_no_room() -> None:
    """A small job that waits leaves what is free to it; what runs goes on."""
    pinned = gang("pinned", 3, 500, runs=True, pinned=True)
    due = gang("due", 4, 300, came_s=-300, fair_end_s=320)
    chosen, _ = decided([pinned, due, gang("small", 1, 10)], 4)

    assert chosen == {}


def test_nothing_is_promised_where_nothing_says_how_long_a_job_runs() -> None:
    """It takes part by its index alone, and its tier stays."""
    chosen, promised = decided([gang("unknown", 2, None)], 4)

    assert chosen == {"unknown": Turn.INDEX}
    assert promised.tiers == [0]


SECONDS = st.floats(1, 10_000)
GANGS = st.lists(
    st.builds(
        WholeGang,
        name=st.text("abc", min_size=1, max_size=3),
        devices=st.sampled_from([0.5, 1, 2, 4, 8, 16]).map(float),
        left_s=st.none() | SECONDS,
        start_s=st.sampled_from([0.0, 20.0]),
        stop_s=st.sampled_from([0.0, 20.0, 200.0]),
        came_s=st.floats(-10_000, 0),
        fair_end_s=st.none() | st.floats(-5_000, 20_000),
        tier=st.integers(0, len(TIERS)),
        index=st.floats(1e-6, 1),
        priority=st.integers(-1, 1),
        deadline_s=st.none() | SECONDS,
        runs=st.booleans(),
        pinned=st.booleans(),
    ),
    max_size=30,
)


@settings(max_examples=scaled(300), deadline=None)
@given(gangs=GANGS, devices=st.sampled_from([16.0, 32.0]))
def test_every_decision_is_sound(gangs: list[WholeGang], devices: float) -> None:
    """Tiers never fall, each gang that is not pinned has one turn, and all that are chosen fit together.

    A promise that is kept can be kept by the gang alone.
    """
    promised = promise(gangs, devices, SLOT_S, LATENESS)
    turns = list(in_turn(gangs, promised, devices, SLOT_S))
    chosen, again = decided(gangs, devices)

    assert again == promised
    assert all(after >= one.tier for one, after in zip(gangs, promised.tiers, strict=True))
    assert sorted(index for index, _ in turns) == [index for index, one in enumerate(gangs) if not one.pinned]
    assert all(due >= one.need_s for one, due in zip(gangs, promised.dues, strict=True))
    held = sum(one.devices for one in gangs if one.pinned)
    free = max(devices - held, 0.0)
    taken = divide(gangs, turns, _taker(gangs, free))
    assert sum(gangs[index].devices for index in taken) <= free
    assert not any(turn is Turn.RUNS for turn in chosen.values())


def _taker(gangs: Sequence[WholeGang], free: float) -> Any:
    left = [free]

    def take(index: int) -> bool:
        fits = gangs[index].devices <= left[0]
        left[0] -= gangs[index].devices if fits else 0.0
        return fits

    return take

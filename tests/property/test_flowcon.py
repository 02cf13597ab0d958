"""FlowCon under any efficiencies and any story: limits are sane, deciders are pure, and no memory grows without bound."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled
from tests.harness.scenarios.folded_pool import used
from tests.harness.view_promises import check_view
from tests.unit.flowcon.scene import ITVAL_MS, FlowConPool, bucket

from steepest.events import cluster as c
from steepest.events.registry import encode
from steepest.invariants import Status, check_with
from steepest.invariants.checkers.limit_rules import Limits
from steepest.policies.flowcon.limit_planner import LimitPlanner
from steepest.policies.flowcon.limits import FREE, LEAST_M, floor, millicores, shares
from steepest.view.state import Phase

EFFICIENCIES = st.none() | st.just(0.0) | st.floats(1e-9, 1e6) | st.floats(1e-9, 1e290)
SEEN = st.lists(st.tuples(st.sampled_from(c.GrowthList), EFFICIENCIES), min_size=1, max_size=40)
CAPACITIES = st.integers(0, 256_000)


@given(SEEN, st.floats(1e-9, 1e3))
def test_limits_of_a_node_are_sane(jobs: list[tuple[c.GrowthList, float | None]], alpha: float) -> None:
    """Each is between the floor and the whole; together they are less than two nodes, unless all compete freely."""
    found = shares(jobs, alpha)
    limited = [share for share in found if share is not None]

    assert all(floor(len(jobs)) <= share <= FREE for share in limited)
    if any(growth_list is not c.GrowthList.COMPLETING for growth_list, _ in jobs):
        assert sum(limited) < 2
        assert all(share is None for (of, _), share in zip(jobs, found, strict=True) if of is c.GrowthList.WATCHED)
    else:
        assert limited == [FREE] * len(jobs)


@given(st.floats(0, 1), CAPACITIES, st.integers(1, 5_000))
def test_no_limit_is_too_small_or_means_none(share: float, capacity_m: int, granularity_m: int) -> None:
    """A limit is at least 1 % of a core and less than the node; without one, the share was all or the node is tiny."""
    limit_m = millicores(share, capacity_m, granularity_m)

    if limit_m is None:
        assert share >= FREE or capacity_m <= LEAST_M
    else:
        assert LEAST_M <= limit_m < capacity_m
        assert limit_m <= max(share * capacity_m + 1e-6, LEAST_M)


# --- whole stories ----------------------------------------------------------------------------------------------------

ACTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7), st.floats(0, 1)), max_size=60)


def play(acts: list[tuple[int, int, float]]) -> FlowConPool:
    """Jobs start, stop, fail, report and use; the engine says yes, no, or nothing clear; FlowCon goes off and on."""
    pool = FlowConPool(w1=1_000, w2=400)
    number = 0
    for step, (kind, which, value) in enumerate(acts):
        running = [job for job in pool.active() if job.alive and job.plan is None]
        job = running[which % len(running)] if running else None
        match kind:
            case 0 | 1:
                pool.run(f"job-{step}", ("w1", "w2")[which % 2], cpu_m=10)
            case 2 if job is not None:
                pool.end(job.name)
            case 3 if job is not None:
                pool.fold(pool.stopped(job.name, 1))
            case 4 | 5 | 6:
                number += 1
                for at, one in enumerate(running):
                    assert one.node is not None
                    pool.fold(used(one.node, 100, **{one.name: int(value * 100) + at}))
                    pool.fold(bucket(one.name, number, value / (at + 1)))
                pool.tick(ITVAL_MS)
            case 7 if job is not None and job.limit is not None and not job.limit.answered:
                answer(pool, job.name, which)
            case 8:
                pool.configure(on=which % 4 > 0)
            case _:
                pool.tick()
    return pool


def answer(pool: FlowConPool, job: str, how: int) -> None:
    """The engine answers."""
    limit, found = pool.job(job).limit, pool.job(job)
    assert limit is not None
    assert found.node is not None
    if how % 3 == 0:
        pool.apply(job)
        return
    pool.fold(
        c.LimitsRefused(
            plan=limit.plan,
            node=found.node,
            job=job,
            incarnation=found.incarnation,
            code="no",
            definite=how % 3 == 1,
            message="",
        )
    )


@settings(max_examples=scaled(60), deadline=None)
@given(ACTS)
def test_any_story_leaves_sound_limits(acts: list[tuple[int, int, float]]) -> None:
    """The view keeps its promises, the log its invariant; the running jobs are watched, and no others."""
    pool = play(acts)
    check_view(pool.view)
    (verdict,) = check_with([Limits], pool.log)
    assert verdict.status is Status.HOLDS, verdict.message
    planned = [event for event in pool.decided if isinstance(event, c.LimitsPlanned)]
    assert all(one.cpu_m is None or one.cpu_m >= LEAST_M for event in planned for one in event.limits)
    state = pool.planner.state
    if pool.flowcon.on:
        alive = {job.name: job.incarnation for job in pool.view.jobs if job.alive}
        assert {name: watched.incarnation for name, watched in state.jobs.items()} == alive
        assert {name for round_ in state.rounds.values() for name, _ in round_.ids} == set(alive)
        assert not any(pool.job(name).phase is Phase.ENDED for name in state.moving)
    else:
        assert state == LimitPlanner().state


@settings(max_examples=scaled(30), deadline=None)
@given(ACTS)
def test_a_story_is_planned_the_same_from_any_snapshot(acts: list[tuple[int, int, float]]) -> None:
    """A state that was written and read encodes to the same bytes as one that was not."""
    state = play(acts).planner.state
    written = msgspec.msgpack.encode(state)

    assert msgspec.msgpack.encode(msgspec.msgpack.decode(written, type=LimitPlanner.state_type)) == written


STORY = [
    (kind, which, value) for which in range(8) for kind, value in ((0, 0.9), (1, 0.5), (5, 0.8), (6, 0.3), (7, 0.1))
]


def plans_of_story() -> str:
    """What one story plans, as bytes that can be compared between processes."""
    return "\n".join(encode(event).decode() for event in play(STORY).decided)


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_hash_seeds_change_nothing(seed: str) -> None:
    """The same plans, byte for byte, in a fresh process under any hash seed."""
    code = "from tests.property.test_flowcon import plans_of_story; print(plans_of_story())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
    )
    plans = done.stdout.decode().strip().splitlines()

    assert len(plans) > 10
    assert plans == plans_of_story().splitlines()

"""What the steepest-planner does over a pool: limits, moves, and nothing where nothing is known."""

from __future__ import annotations

from typing import Any

import pytest

from steepest.events.parameters import PoolParameters
from steepest.policies.named import POLICIES, named, under
from steepest.policies.steepest.managed_job import ManagedJob, measure_node
from steepest.policies.steepest.planner_state import SteepestPlannerState


def test_the_names_of_policies_stand_for_their_parameters() -> None:
    """Each name gives parameters that have that name."""
    assert [named(under(name, PoolParameters())) for name in POLICIES] == list(POLICIES)


def test_time_never_falls_and_no_clock_moves_it_by_more_than_a_tick() -> None:
    """Record times jump back and forth; counted time goes on."""
    state = SteepestPlannerState(tick_ms=1_000)
    assert state.time_s(5_000, 1_400, 1_000) == pytest.approx(5.4)
    assert state.time_s(5_000, 90_000_000, 1_000) == pytest.approx(6.0)
    assert state.time_s(5_000, 3, 1_000) == pytest.approx(6.0)
    assert state.time_s(7_000, 3, 1_000) == pytest.approx(7.0)


def running(**fields: Any) -> ManagedJob:
    """A job that has trained for a minute."""
    return ManagedJob("n", 1, 0.0, 0.0, 55.0, **fields)


def test_demand_shows_where_nothing_holds_a_job_back() -> None:
    """On a full node it hides, unless a limited job beside it gets more than its limit."""
    jobs = {"a": running(), "b": running()}
    assert measure_node(jobs, {"a": 4000, "b": 4000}, 8000, 60.0) == []
    jobs["b"].limit(1000)
    jobs["b"].forget_limits()
    assert measure_node(jobs, {"a": 6000, "b": 2000}, 8000, 65.0) == [6.0]
    assert (jobs["a"].demand, jobs["b"].demand) == (6.0, None)


def test_a_low_use_is_a_demand_only_if_two_measurements_agree() -> None:
    """A job that saves or loads data uses little for a while."""
    job = running()
    assert measure_node({"a": job}, {"a": 500, "other": 500, "third": 10}, 8000, 60.0) == []
    assert measure_node({"a": job}, {"a": 1000, "other": 500, "third": 10}, 8000, 65.0) == []
    assert measure_node({"a": job}, {"a": 1010, "other": 500, "third": 10}, 8000, 70.0) == [1.01]

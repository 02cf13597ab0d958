"""What must hold of every workload of the demo, with any seed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.events.common import CheckpointMode
from steepest_lab.demo.workload import JOBS, RECIPES, nodes, pinned, workload

SEEDS = st.integers(min_value=0, max_value=2**32)


@given(cores=st.integers(min_value=1, max_value=512))
def test_nodes_leave_a_fifth_of_the_machine_alone(cores: int) -> None:
    """Four nodes of different capacity have at most 80 % of the cores together, so that an idle node is idle."""
    capacities_m = [node.capacity.cpu_m for node in nodes(cores)]

    assert len(set(capacities_m)) == 4
    assert min(capacities_m) > 0
    assert sum(capacities_m) <= 0.8 * 1000 * cores


@given(seed=SEEDS)
def test_workload_fits_two_cores_and_three_minutes(seed: int) -> None:
    """At least ten jobs of at least six kinds arrive one after the other and need 150 core-seconds at most."""
    arrivals = workload(seed, 2).arrivals

    assert len(arrivals) == JOBS >= 10
    assert len({arrival.kind for arrival in arrivals}) >= 6
    assert len({arrival.job for arrival in arrivals}) == len(arrivals)
    assert all(earlier.at_s < later.at_s for earlier, later in pairwise(arrivals))
    assert workload(seed, 2).core_s <= 150


@given(seed=SEEDS, cores=st.integers(min_value=1, max_value=512))
def test_all_usual_jobs_could_wait_on_one_node(seed: int, cores: int) -> None:
    """No usual request is so large that placement would have to make up for it: the largest node has room for them all."""
    given_ = workload(seed, cores)
    usual = [arrival.spec for arrival in given_.arrivals if arrival.kind not in {"parallel", "urgent"}]

    assert sum(spec.requests.cpu_m for spec in usual) <= max(node.capacity.cpu_m for node in given_.nodes)


@given(seed=SEEDS, cores=st.integers(min_value=1, max_value=512))
def test_the_urgent_job_has_room_on_the_largest_node_without_the_gang_only(seed: int, cores: int) -> None:
    """It is the only job with a priority, fits the largest node, and does not fit there beside the gang."""
    given_ = workload(seed, cores)
    largest_m = max(node.capacity.cpu_m for node in given_.nodes)
    urgent, gang = (next(one.spec for one in given_.arrivals if one.kind == kind) for kind in ("urgent", "parallel"))

    assert [arrival.kind for arrival in given_.arrivals if arrival.spec.priority] == ["urgent"]
    assert urgent.requests.cpu_m <= largest_m
    assert urgent.requests.cpu_m + sum(one.cpu_m for one in gang.replica_requests()) > largest_m


@given(seed=SEEDS)
def test_one_seed_is_one_workload(seed: int) -> None:
    """The same seed draws the same jobs, times and lengths."""
    assert workload(seed, 2) == workload(seed, 2)


def test_seeds_differ() -> None:
    """Another seed draws other lengths and times."""
    assert workload(1, 2) != workload(2, 2)


def test_one_kind_only_prints() -> None:
    """Some job says nothing of checkpoints and is read from its printed lines, so a job that must stay is there."""
    specs = [arrival.spec for arrival in workload(0, 2).arrivals if arrival.kind == "softmax"]

    assert specs
    assert all(spec.checkpoint_mode is not CheckpointMode.ON_REQUEST and spec.log_format == "auto" for spec in specs)


def test_every_recipe_is_lined_up() -> None:
    """Each kind of job arrives in a whole workload."""
    assert {arrival.kind for arrival in workload(0, 2).arrivals} == set(RECIPES)


@pytest.mark.parametrize(("jobs", "length"), [(1, 1.0), (4, 0.1), (16, 1.0)])
def test_workload_can_be_smaller_or_larger(jobs: int, length: float) -> None:
    """As many jobs as asked for, as long as asked for, with names of their own."""
    small = workload(0, 2, jobs, length)

    assert len({arrival.job for arrival in small.arrivals}) == jobs
    assert small.core_s <= jobs * (0.3 + 12 * length)


def test_pinned_workload_differs_in_its_first_nodes_only() -> None:
    """The second run of a comparison starts each job where the first run placed it, and else is the same."""
    first = workload(0, 2)
    places = {arrival.job: f"n{1 + place % 4}" for place, arrival in enumerate(first.arrivals)}

    second = pinned(first, places)

    assert {arrival.job: arrival.spec.first_node for arrival in second.arrivals} == places
    assert pinned(second, {}) == first

"""What the demo runs under DRAGON: more than its nodes hold as named, and possible at its fewest."""

from __future__ import annotations

import pytest

from steepest.events.common import Resources
from steepest.policies.named import POLICIES, named
from steepest_lab.demo.gangs.workload import TIME_SCALE, gang_parameters, gang_workload, is_for


def test_one_seed_is_one_workload() -> None:
    """Another seed has other lengths and times."""
    assert gang_workload(3, 2) == gang_workload(3, 2)
    assert gang_workload(3, 2) != gang_workload(4, 2)


@pytest.mark.parametrize("cores", [1, 2, 16])
def test_gangs_must_queue_and_all_could_run_at_their_fewest(cores: int) -> None:
    """As they are named they need more than there is; each alone fits one node, on any machine."""
    given = gang_workload(0, cores)
    capacity = sum(node.capacity.cpu_m for node in given.nodes)
    asked = [sum((one.cpu_m for one in arrival.spec.replica_requests()), 0) for arrival in given.arrivals]

    assert len(given.nodes) == 2
    assert len(given.arrivals) == 12
    assert sum(asked) > 2 * capacity
    for arrival, needed in zip(given.arrivals, asked, strict=True):
        assert arrival.spec.is_gang
        assert Resources(cpu_m=needed).fits(given.nodes[0].capacity)
        assert all(role.requests.cpu_m > 0 for role in arrival.spec.roles)


def test_every_variant_of_dragon_keeps_its_switches_on_the_demos_time_scale() -> None:
    """Only times are other ones."""
    for name, policy in POLICIES.items():
        assert is_for(name) is policy.dragon.on
        if policy.dragon.on:
            shown = gang_parameters(name)
            assert named(shown) == name
            assert shown.dragon.starving_ms == policy.dragon.starving_ms // TIME_SCALE

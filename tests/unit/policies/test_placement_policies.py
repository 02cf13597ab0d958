"""Placement by name, and ``flowcon2``: where most can be reclaimed from jobs that hardly grow."""

from __future__ import annotations

from typing import get_args

import pytest
from tests.harness.scenarios.folded_pool import joined, submitted
from tests.harness.system.driver import DeciderDriver
from tests.unit.flowcon.scene import CL, NL, WL

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.policies.named import POLICIES
from steepest.policies.names import PlacementName, PolicyName
from steepest.policies.pending import Pending
from steepest.policies.placement.flowcon2 import need, reclaimable
from steepest.policies.placement.placer import Placer
from steepest.policies.placement.policies import PLACEMENTS


def pool(placement: str = "flowcon2", **nodes_cpu_m: int) -> DeciderDriver:
    """Nodes and a placer under this policy."""
    driver = DeciderDriver(Placer(), **nodes_cpu_m)
    driver.fold(c.PoolConfigured(parameters=PoolParameters(placement=placement)))
    return driver


def put(driver: DeciderDriver, node: str, *lists: tuple[c.GrowthList, int | None]) -> None:
    """Jobs run on a node, in these lists and with these limits."""
    names = [f"{node}-{number}" for number in range(len(lists))]
    for name in names:
        driver.fold(submitted(name, 10, first_node=node))
        driver.carry_out(name)
    limits = tuple(c.JobLimit(name, 1, *one) for name, one in zip(names, lists, strict=True))
    driver.fold(
        c.LimitsPlanned(plan=f"limits-{node}", node=node, limits=limits, because=c.LimitsBecause(rule="a test says so"))
    )


def placed(driver: DeciderDriver) -> c.PlacementPlanned:
    """Where an arrival goes."""
    (plan,) = [
        event
        for event in driver.ask(submitted("new", 10))
        if isinstance(event, c.PlacementPlanned) and event.job == "new"
    ]
    return plan


def test_an_arrival_goes_where_most_can_be_reclaimed() -> None:
    """Three that complete need 3/4 of a node together, one that is new needs all of one."""
    driver = pool(w1=1_000, w2=1_000)
    put(driver, "w1", (CL, 250), (CL, 250), (CL, 250))
    put(driver, "w2", (NL, None))
    plan = placed(driver)

    assert plan.nodes == ("w1",)
    assert plan.because.rule == "flowcon2: most to be reclaimed from jobs that hardly grow"
    assert reclaimable(driver.view, driver.node("w2"), Pending()) == 0


@pytest.mark.parametrize(
    ("growth_list", "limit_m", "share"),
    [(NL, 100, 1.0), (WL, 100, 0.1), (WL, None, 1.0), (CL, 100, 0.5), (CL, None, 0.5)],
)
def test_what_a_job_needs(growth_list: c.GrowthList, limit_m: int | None, share: float) -> None:
    """A new one all, a watched one its limit, a completing one the floor 1/(n+1)."""
    driver = pool(w1=1_000)
    put(driver, "w1", (growth_list, limit_m))

    assert need(driver.job("w1-0"), driver.node("w1")) == share


def test_larger_nodes_have_more_to_give() -> None:
    """C·(1 − Σ need): half of a larger node is more than half of a smaller one."""
    driver = pool(w1=1_000, w2=4_000)
    put(driver, "w1", (CL, None))
    put(driver, "w2", (CL, None))

    assert placed(driver).nodes == ("w2",)


def test_of_overcommitted_nodes_the_larger_is_less_so() -> None:
    """Two new jobs on each: what is missing is divided by the capacity."""
    driver = pool(w1=1_000, w2=4_000)
    put(driver, "w1", (NL, None), (NL, None))
    put(driver, "w2", (NL, None), (NL, None))

    assert placed(driver).nodes == ("w2",)


def test_equals_go_by_their_jobs_and_then_by_name() -> None:
    """Empty nodes: the first; then the next, because the first has a job on its way."""
    driver = pool(w1=1_000, w2=1_000)
    plans = [
        event for event in driver.ask(submitted("a", 10), submitted("b", 10)) if isinstance(event, c.PlacementPlanned)
    ]

    assert [plan.nodes for plan in plans] == [("w1",), ("w2",)]


def test_a_job_goes_only_where_it_fits() -> None:
    """Requests are reserved as under any policy; lost nodes take no job."""
    driver = pool(w1=100, w2=1_000, w3=2_000)
    driver.fold(c.NodeLost(node="w3", silent_ms=1))
    plans = [
        event for event in driver.ask(submitted("a", 500), submitted("b", 600)) if isinstance(event, c.PlacementPlanned)
    ]

    assert [plan.nodes for plan in plans] == [("w2",)]


def test_an_unknown_policy_is_spread_and_says_so() -> None:
    """Parameters come from outside: placement continues, and each plan's reason says so."""
    driver = pool("best-fit", w1=1_000)

    assert placed(driver).because.rule.endswith("(no placement policy is named 'best-fit')")


def test_the_command_line_offers_what_there_is() -> None:
    """The names that a command shows without importing a policy are all of them."""
    assert set(get_args(PlacementName)) == set(PLACEMENTS)
    assert get_args(PolicyName) == tuple(POLICIES)


def test_spread_counts_shares_of_gpus() -> None:
    """Of two nodes, the one whose GPU is free gets the job, although a little more of its CPU is reserved."""
    driver = DeciderDriver(Placer())
    driver.feed(joined("w1", gpus=1), joined("w2", gpus=1))
    for name, cpu_m, gpu_m, node in (("a", 10, 600, "w1"), ("b", 20, 0, "w2"), ("c", 10, 200, "w2")):
        driver.fold(submitted(name, requests=Resources(cpu_m, gpu_m=gpu_m)))
        placed = [event for event in driver.decided if isinstance(event, c.PlacementPlanned)]
        assert placed[-1].nodes == (node,)

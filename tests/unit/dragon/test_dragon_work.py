"""What a pass of the gang-scheduler costs: counted in calls, so that it is the same on every machine."""

from __future__ import annotations

import pytest
from tests.harness.call_count import count_calls
from tests.harness.scenarios.folded_pool import submitted
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, LabelOperator, LabelRequirement, NodeRule, Resources
from steepest.events.parameters import PoolParameters
from steepest.policies.dragon.gang_scheduler import LOOKED_AT, GangScheduler
from steepest.policies.named import under

STARVED_S = 240
"""Longer than any variant lets a job wait before others are to give up workers for it, and until all had their turn."""


ZONE_A = NodeRule(requires=(LabelRequirement(key="zone", operator=LabelOperator.IN, values=("a",)),))


def gang(name: str, cpu_m: int, *sizes: int, rule: NodeRule | None = None) -> c.JobSubmitted:
    """A gang of fewest, named and most workers."""
    fewest, named, most = sizes
    requests = Resources(cpu_m=cpu_m)
    worker = c.Role(name="worker", replicas=named, min=fewest, max=most, requests=requests)
    return submitted(name, mode=CheckpointMode.ON_REQUEST, roles=(worker,), node_rule=rule)


def calls(policy: str, waiting: int, *, small: bool = False, rule: NodeRule | None = None) -> int:
    """Of a pass in which so many gangs wait, of 500 sizes, on 40 nodes that are full.

    Args:
        policy: Which variant.
        waiting: How many gangs wait.
        small: Whether a job comes that fits.
        rule: Which nodes those that wait may run on.
    """
    driver = DeciderDriver(GangScheduler(), large=20_000, **{f"n{number:03}": 400 for number in range(40)})
    parameters = under(policy, PoolParameters(settle_ms=10**9))
    driver.fold(c.PoolConfigured(parameters=parameters))
    for number in range(40):
        driver.feed(gang(f"runs-{number}", 175, 2, 2, 4))
    for job in driver.active():
        driver.carry_out(job.name)
    for number in range(0, 40, 2):
        labels = {"zone": "a"}
        driver.feed(c.NodeJoined(node=f"n{number:03}", capacity=Resources(cpu_m=400), labels=labels))
    driver.fold(c.NodeLost(node="large", silent_ms=1))
    for number in range(waiting):
        driver.fold(gang(f"waits-{number}", 500 + number % 500, 2, 3, 4, rule=rule))
    for _ in range(STARVED_S):
        driver.tick()
    assert len(driver.view.jobs.queue) == waiting
    received = driver.append(submitted("small", 10) if small else c.Tick(counted_ms=driver.view.counted_ms + 60_000))
    assert driver.view.fold(received)
    return count_calls(lambda: driver.deciders[0].step(driver.view, received))[0]


KINDRED = ("dragon", "dragon-paper-era")


@pytest.mark.parametrize("rule", [None, ZONE_A], ids=["anywhere", "in a zone"])
@pytest.mark.parametrize("small", [False, True], ids=["tick", "submission"])
@pytest.mark.parametrize("policy", [*(pytest.param(each, marks=pytest.mark.long) for each in KINDRED), "dragon-fixed"])
def test_a_pass_costs_the_same_however_many_gangs_wait(policy: str, *, small: bool, rule: NodeRule | None) -> None:
    """Of those that starve, the first ones are looked at; of the others, none for which there is no new room."""
    few = calls(policy, 10 * LOOKED_AT, small=small, rule=rule)

    assert calls(policy, 20 * LOOKED_AT, small=small, rule=rule) <= 1.5 * few

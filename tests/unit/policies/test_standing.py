"""What commands say of a job that waits: its position, what it waits for, and when it may start."""

from __future__ import annotations

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import placement, submitted
from tests.harness.scenarios.scenario import act, read
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import (
    LabelOperator,
    LabelRequirement,
    NodeRule,
    Resources,
    Taint,
    Toleration,
    TolerationOperator,
)
from steepest.events.parameters import PoolParameters
from steepest.policies.placement.placer import Placer
from steepest.policies.placement.standing import Standing, Waits, standings


def standing(text: str, job: str) -> Standing:
    """How a job stands after a scenario."""
    driver = DeciderDriver(Placer())
    for line in read(text):
        act(driver, line.words)
    return standings(driver.view)[job]


@pytest.mark.parametrize(
    ("text", "waits_for", "reason"),
    [
        ("submit j", Waits.NODES, "no node takes jobs now"),
        ("node w1 100\nsubmit j cpu=200", Waits.ROOM, "no node has 200m CPU free: CPU is short"),
        (
            "node w1 100\nsubmit j replicas=3",
            Waits.ROOM,
            "nodes have room for 1 of the 3 replicas that it needs, 100m CPU",
        ),
        (
            "submit j\nlimit default replicas=0\nnode w1 900",
            Waits.LIMIT,
            "it asks for at least 1 replica, and queue default may hold 0 replicas; it starts only once that limit is",
        ),
        (
            "node w1 900\nlimit default cpu_m=150\nsubmit a\nsubmit j",
            Waits.LIMIT,
            "it asks for at least 100m CPU, and queue default holds 100m CPU of the 150m CPU that it may hold",
        ),
        (
            "node w1 200\nset blocking=true\nsubmit a\nsubmit fat cpu=200\nsubmit j",
            Waits.BLOCKED,
            "job fat is before it and has no room",
        ),
        (
            "node w1 100\nset blocking=true\nlost w1\nnode w2 50\nsubmit fat\nsubmit j cpu=60 queue=other",
            Waits.ROOM,
            "no node has 60m CPU free: CPU is short",
        ),
        (
            "node w1 900\nset blocking=true\nlimit default cpu_m=150\nsubmit a\nsubmit fat\nsubmit j cpu=50",
            Waits.BLOCKED,
            "job fat is before it, and queue default has reached its limit",
        ),
        (
            "node w1 100\nsubmit j retries=1\ncarry j\nexit j 1",
            Waits.RETRY,
            "its next try is held back, after: a failure",
        ),
        ("node w1 100\nsubmit j first_node=w2", Waits.ROOM, "its first node w2 has not 100m CPU free"),
    ],
)
def test_what_a_job_waits_for(text: str, waits_for: Waits, reason: str) -> None:
    """A rule, or the resource that is short."""
    found = standing(text, "j")
    assert found.waits_for is waits_for
    assert found.reason.startswith(reason)


GPU = Taint(key="gpu", value="yes")
SSD = NodeRule(requires=(LabelRequirement(key="disk", operator=LabelOperator.IN, values=("ssd",)),))
ANY = NodeRule(tolerates=(Toleration(operator=TolerationOperator.EXISTS),))


@pytest.mark.parametrize(
    ("rule", "terms", "waits_for", "reason"),
    [
        (None, [(None, (GPU,))], Waits.NODES, "it may not run on the only node that takes jobs: the taint gpu=yes"),
        (
            None,
            [(None, (GPU,)), (None, (Taint(key="off"),)), (None, (GPU,))],
            Waits.NODES,
            "it may not run on any of the 3 nodes that take jobs: the taint gpu=yes:NoSchedule (2 of them)",
        ),
        (SSD, [(None, ())], Waits.NODES, "it may not run on the only node that takes jobs: its labels, which are not"),
        (
            SSD,
            [({"disk": "hdd"}, ()), ({}, ())],
            Waits.NODES,
            "it may not run on any of the 2 nodes that take jobs: the label disk In [ssd], which does not hold",
        ),
        (SSD, [({"disk": "ssd"}, ()), ({}, ())], Waits.ROOM, "no node that it may run on has 200m CPU free: CPU is short"),
        (ANY, [(None, (GPU,))], Waits.ROOM, "no node that it may run on has 200m CPU free: CPU is short"),
    ],
)  # fmt: skip
def test_a_job_that_may_run_nowhere_waits_and_says_why(
    rule: NodeRule | None, terms: list[tuple[dict[str, str] | None, tuple[Taint, ...]]], waits_for: Waits, reason: str
) -> None:
    """However long it waits: it is neither started in vain nor rejected, because nodes may say something else."""
    driver = DeciderDriver(Placer())
    driver.fold(c.PoolConfigured())
    for number, (labels, taints) in enumerate(terms):
        node = c.NodeJoined(node=f"w{number}", capacity=Resources(200), labels=labels, taints=taints)
        driver.fold(node)
        tolerant = NodeRule(tolerates=ANY.tolerates)
        driver.feed(submitted(f"filler-{number}", 100, node_rule=tolerant), placement(f"filler-{number}", node.node))
    driver.feed(submitted("j", 200, node_rule=rule))
    for _ in range(100):
        driver.tick(10_000)
    found = standings(driver.view)["j"]

    assert found.waits_for is waits_for
    assert found.reason.startswith(reason)
    driver.fold(c.NodeJoined(node="w0", capacity=Resources(1_000), labels={"disk": "ssd"}))
    assert driver.job("j").plan is not None


def test_a_gang_waits_for_room_on_the_nodes_that_it_may_run_on() -> None:
    """Room elsewhere does not count, and where there is no such node, the reason says what keeps it away."""
    driver = DeciderDriver(Placer())
    driver.fold(c.PoolConfigured())
    for node, disk, cpu_m in (("w1", "ssd", 100), ("w2", "hdd", 900), ("w3", "hdd", 900)):
        driver.fold(c.NodeJoined(node=node, capacity=Resources(cpu_m), labels={"disk": disk}))
    nowhere = NodeRule(requires=(LabelRequirement(key="disk", operator=LabelOperator.IN, values=("tape",)),))
    driver.feed(
        submitted("short", 100, replicas=2, node_rule=SSD), submitted("lost", 100, replicas=2, node_rule=nowhere)
    )
    for _ in range(10):
        driver.tick(10_000)
    short, lost = (standings(driver.view)[name] for name in ("short", "lost"))

    assert (short.waits_for, lost.waits_for) == (Waits.ROOM, Waits.NODES)
    assert short.reason.startswith("the nodes that it may run on have room for 1 of the 2 replicas that it needs")
    assert lost.reason.startswith("it may not run on any of the 3 nodes that take jobs: the label disk In [tape]")
    driver.fold(c.NodeJoined(node="w2", capacity=Resources(900), labels={"disk": "tape"}))
    assert driver.plan_of("lost").targets == ("w2", "w2")


def test_positions_are_those_of_the_policy() -> None:
    """From 1, among all that wait."""
    text = "node w1 100\nset policy=priority\nsubmit fat cpu=900\nsubmit a cpu=900\nsubmit b cpu=900 priority=5"
    assert [standing(text, job).position for job in ("fat", "a", "b")] == [2, 3, 1]
    assert standing(text, "b").waiting == 3


def test_a_start_is_estimated_from_running_jobs_whose_end_is_known_and_from_no_others() -> None:
    """The job that runs has 50 of 100 steps left, at 10 steps in 10 seconds."""
    driver = DeciderDriver(Placer())
    parameters = msgspec.convert({"settle_ms": 10**9}, PoolParameters)
    driver.fold(c.PoolConfigured(parameters=parameters))
    for words in (["node", "w1", "500"], ["submit", "a", "cpu=300", "steps=100"], ["carry", "a"]):
        act(driver, words)
    for words in (["submit", "b", "cpu=400"], ["submit", "d", "cpu=400"], ["submit", "never", "cpu=600"]):
        act(driver, words)
    assert standings(driver.view)["b"].start_ms is None
    for step in (10, 20, 30, 40, 50):
        driver.tick(10_000)
        progress = c.ReplicaProgress(job="a", incarnation=1, step=step)
        driver.fold(c.NodeUsage(node="w1", used=Resources(), progress=(progress,)))
    found = standings(driver.view)
    assert [found[name].start_ms for name in ("b", "d", "never")] == [50_000, None, None]


def test_a_job_on_a_drained_pool_says_what_opens_it() -> None:
    """In the words of the command, not by the taint."""
    driver = DeciderDriver(Placer(), w1=1_000)
    driver.feed(c.NodeDrainRequested(node="w1", request="r", drained=True), submitted("j"))

    found = standings(driver.view)["j"]
    assert found.waits_for is Waits.NODES
    assert found.reason == "no node takes jobs now: `steepest nodes undrain w1` opens one"

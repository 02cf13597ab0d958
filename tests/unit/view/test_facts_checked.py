"""Whose word about a replica counts: that of the node which its incarnation was started on."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, checkpoint, migration, placement, submitted
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode
from steepest.policies.placement.placer import Placer
from steepest.view.state import Phase

Fact = Callable[[str, int, str], c.ClusterEvent]

FACTS: dict[str, Fact] = {
    "started": lambda job, number, node: c.ReplicaStarted(job=job, incarnation=number, node=node),
    "stopped": lambda job, number, node: c.ReplicaStopped(job=job, incarnation=number, node=node, exit_status=0),
    "mode": lambda job, number, node: c.CheckpointModeDeclared(
        job=job, incarnation=number, mode=CheckpointMode.ON_STOP, node=node
    ),
    "verified": lambda job, number, node: c.CheckpointVerified(
        job=job, incarnation=number, checkpoint=checkpoint(999), node=node
    ),
}


def pool() -> FoldedPool:
    """Job a runs on w1."""
    there = FoldedPool(w1=1_000, w2=1_000)
    there.run("a", "w1")
    return there


def state(there: FoldedPool) -> bytes:
    """All of the view but how far it has read."""
    return msgspec.msgpack.encode(msgspec.structs.replace(there.view.state, position=0))


@pytest.mark.parametrize("fact", FACTS.values(), ids=FACTS)
def test_another_node_knows_nothing_of_a_replica(fact: Fact) -> None:
    """What it says changes nothing; the node that has the replica is believed."""
    there = pool()
    before = state(there)
    assert not there.fold(fact("a", 1, "w2"))
    assert state(there) == before
    assert there.fold(fact("a", 1, "w1"))


def test_while_a_job_moves_the_node_is_that_of_the_incarnation() -> None:
    """Its old node speaks of the old incarnation, and from the beginning of START on its new one of the new."""
    there = pool()
    there.fold(migration("a", "w1", "w2"))
    there.carry_out("a", before=c.Step.START)
    assert there.fold(FACTS["verified"]("a", 1, "w1"))
    there.begin("a")
    assert not there.fold(FACTS["mode"]("a", 2, "w1"))
    assert there.fold(FACTS["mode"]("a", 2, "w2"))
    assert there.fold(FACTS["stopped"]("a", 2, "w2"))


def test_a_process_that_ends_before_its_start_is_told_is_believed() -> None:
    """Its node knows of it before anybody else does."""
    there = FoldedPool(w1=1_000, w2=1_000)
    there.feed(c.PoolConfigured(), submitted("a"), placement("a", "w1"))
    there.begin("a")
    assert not there.fold(FACTS["stopped"]("a", 1, "w2"))
    assert there.fold(FACTS["stopped"]("a", 1, "w1"))


def test_no_other_node_ends_a_job() -> None:
    """The placer says that a job is over by the word of its own node alone."""
    driver = DeciderDriver(Placer(), w1=1_000, cam7=100)
    driver.fold(c.PoolConfigured())
    driver.feed(submitted("a", 500))
    driver.deliver(everything=True)
    driver.carry_out("a")
    assert driver.ask(FACTS["stopped"]("a", 1, "cam7")) == []
    assert driver.job("a").phase is Phase.RUNNING
    assert driver.node("w1").free.cpu_m == 500
    assert driver.ask(FACTS["stopped"]("a", 1, "w1")) == [
        c.JobEnded(job="a", outcome=c.Outcome.FINISHED, exit_status=0)
    ]

"""Which beginnings of steps the migrator sends, where records come between."""

from __future__ import annotations

from collections.abc import Iterator

from tests.harness.scenarios.folded_pool import FoldedPool, migration, success

from steepest.events import cluster as c
from steepest.events.received import SOURCE
from steepest.sagas.migration_machine import MigrationMachine, SendEvent

SOURCE_NAME = "migrator-1"


class Machine:
    """A machine that follows a pool; what it sends is read when the test says so."""

    def __init__(self, pool: FoldedPool) -> None:
        self.pool = pool
        self.machine = MigrationMachine(SOURCE_NAME)
        self.machine.caught_up(pool.view, pool.now_ms)

    def tell(self, event: c.ClusterEvent) -> bool:
        """Let a record be read; whether it counts."""
        own = {SOURCE: SOURCE_NAME} if isinstance(event, c.StepBegun) else None
        received = self.pool.append(event, own)
        accepted = self.pool.take_in(received)
        self.machine.observe(self.pool.view, received, accepted=accepted)
        return accepted

    def sent(self) -> Iterator[c.ClusterEvent]:
        """What it has sent since the last call."""
        due, self.machine.due[:] = list(self.machine.due), []
        yield from (action.event for action in due if isinstance(action, SendEvent))


def test_a_beginning_that_does_not_count_any_more_is_followed_by_another_one() -> None:
    """The target is declared gone between the START that was sent and its reading: it is started where it was."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("a", "w1")
    machine = Machine(pool)
    machine.tell(migration("a", "w1", "w2"))
    while True:
        (begun,) = (event for event in machine.sent() if isinstance(event, c.StepBegun))
        if begun.step is c.Step.START:
            break
        assert machine.tell(begun)
        list(machine.sent())
        machine.tell(success(begun, pool.job("a")))
    machine.tell(c.NodeLost(node="w2", silent_ms=15_000))
    machine.tell(c.NodeGone(node="w2"))

    assert not machine.tell(begun)
    pool.now_ms += 1_000
    machine.tell(c.Tick(counted_ms=1_000))
    (again,) = machine.sent()
    assert isinstance(again, c.StepBegun)
    assert (again.step, again.node, again.attempt) == (c.Step.START, "w1", begun.attempt)
    assert machine.tell(again)


def test_what_was_sent_in_vain_before_a_restart_is_sent_again() -> None:
    """A step was taken over as its outcome came, and the loop started again before that was read: it is history then."""
    pool = FoldedPool(w1=1_000, w2=1_000)
    pool.run("a", "w1")
    machine = Machine(pool)
    machine.tell(migration("a", "w1", "w2"))
    (begun,) = machine.sent()
    assert isinstance(begun, c.StepBegun)
    assert pool.fold(begun)
    machine.machine.caught_up(pool.view, pool.now_ms)
    (taken_over,) = machine.sent()
    assert isinstance(taken_over, c.StepBegun)
    assert pool.fold(success(begun, pool.job("a")))
    assert not pool.fold(taken_over)

    machine.machine.caught_up(pool.view, pool.now_ms)
    (after,) = machine.sent()
    assert isinstance(after, c.StepBegun)
    assert (taken_over.step, after.step) == (c.Step.CHECKPOINT, c.Step.STOP)
    assert after.attempt == taken_over.attempt
    assert pool.fold(after)

"""The migrator begins a bounded number of first placements, and the others in turn."""

from __future__ import annotations

from tests.harness.scenarios.folded_pool import FoldedPool, cancelled, placement, submitted, success

from steepest.events import cluster as c
from steepest.events.received import SOURCE
from steepest.sagas.migration_machine import MigrationMachine, SendEvent
from steepest.sagas.placing_turns import FIRST, LEAST, MOST, PlacingTurns

SOURCE_NAME = "migrator-1"
JOBS = ("a", "b", "c", "d", "e")


class Machine:
    """A machine that follows a pool, and what it has begun so far."""

    def __init__(self, placed_at_once: int | None) -> None:
        self.pool = FoldedPool(w1=1_000)
        self.machine = MigrationMachine(SOURCE_NAME, placed_at_once)
        self.machine.caught_up(self.pool.view, self.pool.now_ms)
        self.begun: dict[str, c.StepBegun] = {}

    def tell(self, event: c.ClusterEvent) -> None:
        """Let a record be read; what the machine begins then is read next."""
        is_own = isinstance(event, c.StepBegun)
        received = self.pool.append(event, {SOURCE: SOURCE_NAME} if is_own else None)
        accepted = self.pool.take_in(received)
        self.machine.observe(self.pool.view, received, accepted=accepted)
        due, self.machine.due[:] = list(self.machine.due), []
        for action in due:
            if isinstance(action, SendEvent):
                if isinstance(action.event, c.StepBegun):
                    self.begun[action.event.job] = action.event
                self.tell(action.event)

    def place_all(self) -> None:
        """Plan a placement of each job."""
        for job in JOBS:
            self.tell(submitted(job))
            self.tell(placement(job, "w1"))

    def succeed(self, job: str) -> None:
        """The job's step is done."""
        self.tell(success(self.begun[job], self.pool.job(job)))


def test_so_many_are_begun_and_the_others_when_one_is_over() -> None:
    """In the order in which they were planned, each once; a placement that fails makes room as well."""
    machine = Machine(2)
    machine.place_all()
    assert list(machine.begun) == ["a", "b"]
    machine.pool.now_ms += 1_000
    machine.tell(c.Tick(counted_ms=1_000))
    assert list(machine.begun) == ["a", "b"]
    machine.succeed("b")
    assert list(machine.begun) == ["a", "b", "c"]
    machine.tell(failed(machine.begun["a"].plan, "no-room"))
    assert list(machine.begun)[:4] == ["a", "b", "c", "d"]
    for job in ("c", "d"):
        machine.succeed(job)
    assert list(machine.begun) == list(JOBS)


def test_a_job_that_is_cancelled_while_it_waits_is_never_begun() -> None:
    """And does not keep the next one from its turn."""
    machine = Machine(1)
    machine.place_all()
    machine.tell(cancelled("b"))
    machine.succeed("a")

    assert list(machine.begun) == ["a", "c"]


def test_the_number_follows_what_the_cluster_achieves() -> None:
    """It grows with each success while others wait, is halved where a start came too late, and stays within its bounds."""
    turns = PlacingTurns(MOST)
    plans = iter(range(10 * MOST))
    begun = [plan for plan in (f"p{next(plans)}" for _ in range(5 * MOST)) if turns.take(plan)]
    assert len(begun) == FIRST
    widths = []
    for _ in range(3 * MOST):
        turns.note(placed(begun.pop(0)), ())
        while (plan := turns.next()) is not None:
            assert turns.take(plan)
            begun.append(plan)
        widths.append(turns.width)
    assert widths[:3] == [FIRST + 1, FIRST + 2, FIRST + 3]
    assert widths[-1] == len(begun) == MOST
    turns.note(failed(begun.pop(), "no-such-image"), begun)
    assert turns.width == MOST
    turns.note(failed(begun.pop(), "not-started"), begun)
    assert turns.width == MOST // 2
    for _ in range(20):
        turns.note(failed(begun.pop(), "timeout"), begun)
    assert turns.width == LEAST


def placed(plan: str) -> c.JobPlaced:
    """The plan's job has started."""
    return c.JobPlaced(plan=plan, attempt=1, job="a", incarnation=1, node="w1")


def failed(plan: str, code: str) -> c.StepFailed:
    """It has not."""
    return c.StepFailed(plan=plan, step=c.Step.START, attempt=1, job="a", code=code, definite=True, message="")


def test_without_a_bound_all_are_begun() -> None:
    """As in a simulation, whose clusters take any number."""
    pool = Machine(None)
    pool.place_all()

    assert list(pool.begun) == list(JOBS)

"""A job that ends or is cancelled at any point of its plan ends up where it must, and holds nothing that it must not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.harness.scenarios.folded_pool import cancelled, checkpoint, migration, submitted
from tests.harness.system.driver import DeciderDriver
from tests.harness.system.replica_processes import ReplicaProcesses

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode
from steepest.policies.placement.placer import Placer
from steepest.view.state import Job, Phase

Happening = Callable[[ReplicaProcesses], bool]

CANCEL: Happening = lambda processes: processes.driver.fold(cancelled("job"))  # noqa: E731
EXIT_0: Happening = lambda processes: processes.exit("job", 0)  # noqa: E731
EXIT_1: Happening = lambda processes: processes.exit("job", 1)  # noqa: E731
GONE: Happening = lambda processes: processes.exit("job", None)  # noqa: E731

HAPPENINGS = {"cancel": CANCEL, "exit 0": EXIT_0, "exit 1": EXIT_1, "gone": GONE}
STEPS = tuple(c.Step)
WHEN = ("due", "begun", "acted on")


def moving(mode: CheckpointMode) -> ReplicaProcesses:
    """A job that runs on w1, under the placer, and a move to w2 in flight."""
    driver = DeciderDriver(Placer(), w1=1_000)
    processes = ReplicaProcesses(driver)
    driver.fold(submitted("job", mode=mode, retries=1))
    processes.settle()
    driver.feed(
        c.NodeJoined(node="w2", capacity=driver.node("w1").capacity),
        c.CheckpointVerified(job="job", incarnation=1, node="w1", checkpoint=checkpoint(50)),
    )
    assert driver.fold(migration("job", "w1", "w2"))
    return processes


def reach(processes: ReplicaProcesses, step: c.Step, when: str) -> c.StepBegun | None:
    """Carry the move out until ``step`` is due, begun, or acted on with its outcome still on the way."""
    driver = processes.driver
    while driver.plan_of("job").step is not step:
        begun = processes.begin("job")
        assert begun is not None
        processes.end(begun)
    return None if when == "due" else processes.begin("job")


def happen(processes: ReplicaProcesses, happening: Happening, begun: c.StepBegun | None, when: str) -> bool:
    """Let it happen before the step under way acts, or between its act and its outcome; says whether it did."""
    outcome = processes.perform(begun) if begun is not None and when == "acted on" else None
    happened = happening(processes)
    if begun is not None:
        processes.driver.fold(outcome or processes.perform(begun))
    processes.settle()
    return happened


def check_fate(job: Job, happening: str, step: c.Step, when: str) -> None:
    """Where the job must have ended up."""
    match happening:
        case "cancel":
            assert job.outcome is c.Outcome.CANCELLED
        case "exit 0":
            assert job.outcome is c.Outcome.FINISHED
        case _ if step is c.Step.STOP and when == "begun":  # as good as stopped: it goes on at its target
            assert (job.node, job.alive, job.retries_used) == ("w2", True, 0)
        case _ if step is c.Step.START or (
            step is c.Step.VERIFY and when != "acted on"
        ):  # the place may be to blame: back to its source
            assert (job.node, job.alive, job.retries_used, job.moves_failed) == ("w1", True, 0, 1)
        case _:  # the move is given up, or was done already, and the job is started again
            assert (job.phase, job.alive, job.retries_used) == (Phase.RUNNING, True, int(happening == "exit 1"))


CASES = [
    (mode, step, when, happening)
    for mode in (CheckpointMode.ON_REQUEST, CheckpointMode.ON_STOP)
    for step in STEPS
    for when in WHEN
    for happening in HAPPENINGS
    if not (step is c.Step.CHECKPOINT and mode is CheckpointMode.ON_STOP)
]


@pytest.mark.parametrize(("mode", "step", "when", "happening"), CASES)
def test_a_move_whose_job_ends_loses_nothing(mode: CheckpointMode, step: c.Step, when: str, happening: str) -> None:
    """For each event at each step, the job is over or runs again, and exactly what it holds is allocated."""
    processes = moving(mode)
    happened = happen(processes, HAPPENINGS[happening], reach(processes, step, when), when)
    driver, job = processes.driver, processes.driver.job("job")
    if happened:
        check_fate(job, happening, step, when)
    else:  # there was no process that could end
        assert (job.node, job.alive, job.moves) == ("w2", True, 1)
    assert job.plan is None
    assert driver.view.in_flight == {}
    assert ("job" in processes.running) == (job.phase is Phase.RUNNING)
    alive_at = {job.node: 100} if job.phase is Phase.RUNNING else {}
    assert driver.allocated() == alive_at
    counts = {node: sum(counts) + driver.node(node).unknown for node, counts in driver.counts().items()}
    assert counts == dict.fromkeys(alive_at, 1)


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("happening", HAPPENINGS)
def test_a_placement_whose_job_ends_loses_nothing(when: str, happening: str) -> None:
    """The same for a first placement: it is over or runs, also where its end is seen before its start."""
    driver = DeciderDriver(Placer(), w1=1_000)
    processes = ReplicaProcesses(driver)
    driver.fold(submitted("job", retries=1))
    begun = reach(processes, c.Step.START, when)
    happen(processes, HAPPENINGS[happening], begun, when)
    job = driver.job("job")
    if happening == "cancel":
        assert job.outcome is c.Outcome.CANCELLED
    elif happening == "exit 0" and when == "acted on":
        assert job.outcome is c.Outcome.FINISHED
    else:
        assert (job.phase, job.alive) == (Phase.RUNNING, True)
    assert driver.allocated() == ({"w1": 100} if job.phase is Phase.RUNNING else {})
    assert ("job" in processes.running) == (job.phase is Phase.RUNNING)


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("happening", ["exit 0", "exit 1", "gone"])
def test_a_job_that_ends_while_it_is_cancelled_is_over(when: str, happening: str) -> None:
    """Finished if it still finished, else cancelled; never retried."""
    driver = DeciderDriver(Placer(), w1=1_000)
    processes = ReplicaProcesses(driver)
    driver.fold(submitted("job", retries=1))
    processes.settle()
    driver.fold(cancelled("job"))
    begun = reach(processes, c.Step.STOP, when)
    happen(processes, HAPPENINGS[happening], begun, when)
    finished = happening == "exit 0" and when != "acted on"  # after the act there is no process left to end
    assert driver.job("job").outcome is (c.Outcome.FINISHED if finished else c.Outcome.CANCELLED)
    assert driver.allocated() == {}
    assert processes.running == {}


def test_a_move_that_is_given_up_may_be_asked_for_again() -> None:
    """Its job came back by a retry and has not been moved: Algorithm 4 may decide about it."""
    processes = moving(CheckpointMode.ON_REQUEST)
    processes.exit("job", 1)
    processes.settle()
    job = processes.driver.job("job")
    assert (job.phase, job.migrated, job.retries_used) == (Phase.RUNNING, False, 1)

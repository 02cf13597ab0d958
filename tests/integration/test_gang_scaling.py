"""Gangs of a server and workers on a real system: scaled, and what they do when a replica hangs, dies or never comes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.harness.system.running_system import RunningSystem
from tests.integration.gang_system import (
    ALONE,
    PYTHON,
    REPLICA,
    SERVER,
    append,
    await_steps,
    incarnation,
    losses,
    pid_of,
    reports,
    server_and_workers,
    submit,
    transition,
    view_of,
)

from steepest.events import cluster as c
from steepest.view.state import Phase

ENDLESS = 100_000


@pytest.fixture
def system(tmp_path: Path) -> Iterator[RunningSystem]:
    """Two nodes with room for all gangs of a test, of its own: what is wrong with one test's system is wrong with no other.

    They have far more than is asked for: where no control groups limit a gang, signals would, and wake a stopped process.
    """
    nodes = ("--node", "n1=4", "--node", "n2=4")
    running = RunningSystem(tmp_path / "state", "--heartbeat", "250ms", *nodes)
    running.start()
    yield running
    running.end()


def cancelled(system: RunningSystem, *jobs: str) -> None:
    """Cancel jobs, and wait for their ends."""
    append(system, *(c.JobCancelRequested(job=job, request=f"enough-{job}") for job in jobs))
    for job in jobs:
        assert system.await_end(job).outcome is c.Outcome.CANCELLED


def trained_as_one_process(system: RunningSystem, job: str, incarnations: tuple[int, ...]) -> None:
    """Every step was done, and once only; and the last loss is that of one process with the same batches."""
    found = losses(system, job, incarnations)
    assert [*found] == [*range(1, len(found) + 1)]
    assert sum(len(reports(system, job, number)) for number in incarnations) == len(found)
    alone = subprocess.run((*ALONE, "--steps", str(len(found))), capture_output=True, text=True, check=True).stdout
    np.testing.assert_allclose(found[len(found)], float(alone.split()[-1]), rtol=0, atol=1e-6)


def runs(system: RunningSystem, job: str) -> list[int]:
    """The replicas of a job whose processes run."""
    state = view_of(system).jobs[job]
    return [index for index, replica in enumerate(state.replicas) if replica.alive]


# --- scaling ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_scaled_gang_has_the_losses_of_one_process(system: RunningSystem) -> None:
    """From two workers on two nodes to one, and to three: no step is lost, and each loss is one process's to 1e-6."""
    job = "scaled"
    submit(system, job, server_and_workers(ENDLESS, 2))
    await_steps(system, job, 1, 5)
    append(system, transition(system, job, "less", c.Transition.SCALE, nodes=("n1", "n1"), sizes=(1, 1)))
    system.await_event(lambda found: _over(found.event, "less"))
    append(system, transition(system, job, "more", c.Transition.SCALE, nodes=("n1", "n2", "n2", "n1"), sizes=(1, 3)))
    system.await_event(lambda found: _over(found.event, "more"))
    await_steps(system, job, 3, 3, replica=3)
    cancelled(system, job)

    trained_as_one_process(system, job, (1, 2, 3))
    assert system.breaches() == []


def test_surplus_workers_are_shed_and_come_back(system: RunningSystem) -> None:
    """Two of four workers leave: the others' processes stay, no step is lost, the loss goes on; then all train again."""
    job = "shed"
    submit(system, job, server_and_workers(ENDLESS, 4, asynchronous=True))
    for replica in range(1, 5):
        await_steps(system, job, 1, 1, replica)
    nodes = view_of(system).jobs[job].nodes
    before = [pid_of(system, job, replica, 1) for replica in range(3)]
    append(
        system,
        transition(system, job, "shed", c.Transition.SHED, nodes=nodes[:3], sizes=(1, 2), leaving=(3, 4)),
    )
    shed = system.await_event(lambda found: _surplus(found.event, job))
    system.await_event(lambda found: _over(found.event, "shed"))
    done = len(reports(system, job, 1))
    for replica in (1, 2):
        await_steps(system, job, 1, len(reports(system, job, 1, replica)) + 3, replica)

    assert [one.replica for one in shed.replicas] == [3, 4]
    assert runs(system, job) == [0, 1, 2]
    assert [pid_of(system, job, replica, 1) for replica in range(3)] == before
    for replica, pid in enumerate(before):
        assert is_alive(pid), replica
    for replica in (3, 4):
        assert not is_alive(pid_of(system, job, replica, 1))
    state = view_of(system).jobs[job]
    assert (state.incarnation, state.running_sizes, state.steps_lost) == (1, (1, 2), 0)
    found = losses(system, job, (1,))
    assert [*found] == [*range(1, len(found) + 1)]
    assert len(found) > done
    assert found[len(found)] < found[1]

    append(system, transition(system, job, "grown", c.Transition.SCALE, nodes=nodes))
    system.await_event(lambda found: _over(found.event, "grown"))
    await_steps(system, job, 2, 3)
    for replica in range(1, 5):
        await_steps(system, job, 2, 1, replica)
    cancelled(system, job)

    found = losses(system, job, (1, 2))
    assert [*found] == [*range(1, len(found) + 1)]
    assert sum(len(reports(system, job, number)) for number in (1, 2)) == len(found)
    assert system.breaches() == []


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _surplus(event: c.ClusterEvent, job: str) -> c.SurplusStopped | None:
    return event if isinstance(event, c.SurplusStopped) and event.job == job else None


def _over(event: c.ClusterEvent, plan: str) -> bool | None:
    if isinstance(event, c.TransitionFailed) and event.plan == plan:
        raise AssertionError(event)
    return True if isinstance(event, c.TransitionFinished) and event.plan == plan else None


def test_a_scale_request_while_a_move_is_under_way_is_void(system: RunningSystem) -> None:
    """The plan that is first on the log is carried out; the other one changes nothing, and says which one was in flight."""
    job = "crossed"
    submit(system, job, server_and_workers(ENDLESS, 1))
    await_steps(system, job, 1, 3)
    move = transition(system, job, "move", c.Transition.MOVE, nodes=("n2", "n2"))
    if set(move.sources) == {"n2"}:
        move = msgspec.structs.replace(move, nodes=("n1", "n1"))
    scale = transition(system, job, "scale", c.Transition.SCALE, nodes=("n1", "n1", "n1"), sizes=(1, 2))
    append(system, move, scale)
    system.await_event(lambda found: _over(found.event, "move"))

    state = view_of(system).jobs[job]
    assert tuple(state.running_on) == move.nodes
    assert not any(isinstance(one.event, c.StepBegun) and one.event.plan == "scale" for one in system.events())
    (refused,) = [entry["void"] for entry in system.ask("explain", job)["entries"] if entry["void"]]
    assert refused == "plan move is in flight"
    cancelled(system, job)
    assert system.breaches() == []


# --- what goes wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_hanging_worker_stops_all_steps_of_a_synchronous_gang(system: RunningSystem) -> None:
    """While one worker is stopped, another job does twenty steps, and the gang at most the one that was under way."""
    submit(system, "hanging", server_and_workers(ENDLESS, 2))
    submit(system, "beside", server_and_workers(ENDLESS, 1))
    await_steps(system, "hanging", 1, 3)
    await_steps(system, "beside", 1, 3)
    worker = pid_of(system, "hanging", 2, 1)
    os.kill(worker, signal.SIGSTOP)
    done = len(reports(system, "hanging", 1))
    await_steps(system, "beside", 1, len(reports(system, "beside", 1)) + 20)
    stopped_at = len(reports(system, "hanging", 1))
    os.kill(worker, signal.SIGCONT)
    await_steps(system, "hanging", 1, stopped_at + 3)

    assert stopped_at <= done + 1
    cancelled(system, "hanging", "beside")


def test_a_worker_that_vanishes_in_mid_step_costs_a_synchronous_gang_no_step(system: RunningSystem) -> None:
    """A worker is killed: all start again, whole, from the last complete step, and have one process's losses."""
    job = "vanished"
    submit(system, job, msgspec.structs.replace(server_and_workers(ENDLESS, 3, least=3), retries=1))
    await_steps(system, job, 1, 5)
    os.kill(pid_of(system, job, 2, 1), signal.SIGKILL)
    await_steps(system, job, 2, 3)
    cancelled(system, job)

    trained_as_one_process(system, job, (1, 2))
    assert system.breaches() == []


def test_surplus_workers_leave_an_asynchronous_gang_without_a_restart(system: RunningSystem) -> None:
    """Two of three workers vanish: the server and the last one go on in the same incarnation."""
    job = "surplus"
    submit(system, job, server_and_workers(ENDLESS, 3, asynchronous=True))
    for replica in (1, 2, 3):
        await_steps(system, job, 1, 1, replica)
    for replica in (1, 2):
        os.kill(pid_of(system, job, replica, 1), signal.SIGKILL)
        system.await_event(lambda found, replica=replica: _stopped(found.event, job, replica))  # type: ignore[misc]
    await_steps(system, job, 1, len(reports(system, job, 1, 3)) + 3, replica=3)

    assert runs(system, job) == [0, 3]
    assert view_of(system).jobs[job].incarnation == 1
    assert "goes on without rank 1" in incarnation(system, job, 0, 1).output.read_text()
    cancelled(system, job)
    assert system.breaches() == []


def _stopped(event: c.ClusterEvent, job: str, replica: int) -> bool | None:
    return True if isinstance(event, c.ReplicaStopped) and (event.job, event.replica) == (job, replica) else None


def test_a_replica_that_dies_during_its_start_ends_all(system: RunningSystem, tmp_path: Path) -> None:
    """The gang fails as one: its other replicas are stopped, and the reason names the exit status of the one that died."""
    job = "stillborn"
    submit(system, job, scripted(tmp_path, "sys.exit(7)"))
    ended = system.await_end(job)

    assert ended.outcome is c.Outcome.FAILED
    assert "7" in ended.reason
    assert reports(system, job, 1) == []
    assert runs(system, job) == []
    assert view_of(system).jobs[job].phase is Phase.ENDED


@pytest.mark.long
def test_a_worker_that_never_joins_ends_all(system: RunningSystem, tmp_path: Path) -> None:
    """The server misses it, says so and fails; the one that never joined is stopped as well."""
    job = "absent"
    submit(system, job, scripted(tmp_path, "import time; time.sleep(3600)"))
    ended = system.await_end(job)

    assert ended.outcome is c.Outcome.FAILED
    assert "ranks [2] have not called" in incarnation(system, job, 0, 1).output.read_text()
    assert runs(system, job) == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid_of(system, job, 2, 1), 0)


def scripted(folder: Path, instead: str) -> c.JobSpec:
    """A server and two workers, of which the second one does something else."""
    script = folder / "train.py"
    script.write_text(
        f"import os, sys\nif os.environ['RANK'] == '2':\n    {instead}\n"
        f"os.execv(sys.executable, [*{[*SERVER, '--steps', '20', '--patience', '5']!r}])\n"
    )
    roles = (c.Role(name="ps", requests=REPLICA), c.Role(name="worker", replicas=2, requests=REPLICA))
    return c.JobSpec(command=(PYTHON, str(script)), roles=roles)

"""The parameter server among the demo jobs: its workers divide the steps, wait for each other or not, and may be lost."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.demo_jobs.conftest import PATIENCE_S
from tests.unit.demo_jobs.gang_processes import Gangs, ends, free_ports, wait_for

from steepest_lab.jobs.gangs import star
from steepest_lab.jobs.gangs.star import PeerLost
from steepest_lab.jobs.gangs.tasks import GradientTask, TaskServer, tasks
from steepest_sdk import EXIT_STOPPED

SIZE = ("--steps", "20", "--work", "0.5", "--seed", "3")
ENDLESS = ("--steps", "100000")
ASYNCHRONOUS = "--asynchronous"


@pytest.fixture
def gangs(tmp_path: Path) -> Iterator[Gangs]:
    """Starts gangs; all that is left of them is killed."""
    made = Gangs(tmp_path, "gangs.parameter_server")
    yield made
    made.kill()


# --- synchronous --------------------------------------------------------------------------------------------------------


def test_any_number_of_workers_has_the_losses_of_one_process(gangs: Gangs) -> None:
    """Alone, with one worker and with three: each loss is the same to 1e-6, and only the server reports it."""
    for world_size in (1, 2, 4):
        assert ends(gangs.start(world_size, *SIZE)) == [0] * world_size

    assert len(gangs.losses(1)) == 20
    assert gangs.losses(1)[-1] < gangs.losses(1)[0] * 0.9
    np.testing.assert_allclose(gangs.losses(2), gangs.losses(1), rtol=0, atol=1e-6)
    np.testing.assert_allclose(gangs.losses(3), gangs.losses(1), rtol=0, atol=1e-6)
    assert [report["metrics"] for report in gangs.reports(3, 2)] == [{}] * 20


@pytest.mark.long
def test_a_training_goes_on_with_another_number_of_workers(gangs: Gangs) -> None:
    """Saved with three workers and resumed with one: the losses go on as those of one process without a stop."""
    assert ends(gangs.start(1, *SIZE)) == [0]
    four = gangs.start(4, *SIZE, asked=True)
    checkpoint = gangs.saved(2)
    for process in four:
        process.terminate()
    assert ends(four) == [EXIT_STOPPED] * 4
    assert ends(gangs.start(2, *SIZE, restore=checkpoint)) == [0, 0]

    together = gangs.losses(2) + gangs.losses(3)
    assert gangs.losses(2)
    assert gangs.losses(3)
    np.testing.assert_allclose(together, gangs.losses(1), rtol=0, atol=1e-6)


@pytest.mark.long
def test_a_worker_that_begins_behind_the_last_step_needs_no_server(gangs: Gangs) -> None:
    """A gang that is given another size then: the server has nothing left to give, and may be gone first."""
    (alone,) = gangs.start(1, *ENDLESS, asked=True)
    checkpoint = gangs.saved(1)
    alone.terminate()
    assert alone.wait(PATIENCE_S) == EXIT_STOPPED
    server, worker = gangs.start(2, *SIZE, "--steps", "1", restore=checkpoint)
    server.kill()

    assert worker.wait(PATIENCE_S) == 0


def test_a_hanging_worker_stops_all_steps_until_it_goes_on(gangs: Gangs) -> None:
    """While one of two workers is stopped, no step is done; the server can be saved all the same, and goes on afterwards."""
    server, hanging, _ = gangs.start(3, *ENDLESS)
    wait_for(lambda: len(gangs.reports(1)) >= 3)
    hanging.send_signal(signal.SIGSTOP)
    request = gangs.control(1, 0) / "checkpoint-request.json"
    request.write_text('{"request": "a", "hold_s": 0.2}')
    gangs.saved(1)
    # It can save in mid-step only; so the step that it saved at is one that the hanging worker has not answered.
    done = len(gangs.reports(1))
    threading.Event().wait(1.0)
    assert len(gangs.reports(1)) - done <= 1
    hanging.send_signal(signal.SIGCONT)
    wait_for(lambda: len(gangs.reports(1)) >= done + 3)
    assert server.poll() is None


def test_a_worker_lost_in_mid_step_ends_the_others_and_costs_no_step(gangs: Gangs) -> None:
    """The server names the worker that was killed, saves its last complete step, and fails as the other worker does."""
    three = gangs.start(3, *ENDLESS)
    wait_for(lambda: len(gangs.reports(1)) >= 3)
    three[1].kill()
    said = [process.communicate(timeout=PATIENCE_S)[0] for process in (three[0], three[2])]

    assert ends(three) == [1, -signal.SIGKILL, 1]
    assert "rank 0 of 3 has lost a peer after step" in said[0]
    assert "rank 1: " in said[0]
    assert "rank 2 of 3 has lost a peer after step" in said[1]
    last = gangs.reports(1)[-1]["step"]
    assert (gangs.root / "checkpoints" / f"step-{last:08d}-i0001").is_dir()


@pytest.mark.long
def test_a_worker_that_never_comes_is_named(gangs: Gangs) -> None:
    """The server waits as long as it is asked to, does no step, and says which rank it has missed."""
    server, missing, other = gangs.start(3, *SIZE, "--patience", "2")
    missing.kill()

    assert server.communicate(timeout=PATIENCE_S)[0].endswith("after step 0: ranks [1] have not called\n")
    assert ends([server, other]) == [1, 1]
    assert gangs.reports(1) == []


def test_a_server_whose_workers_never_come_can_be_stopped(gangs: Gangs) -> None:
    """A gang that started in part is taken back."""
    server, worker = gangs.start(2, *SIZE)
    worker.kill()
    wait_for((gangs.control(1, 0) / "hello.json").exists)
    server.terminate()

    assert server.wait(PATIENCE_S) == EXIT_STOPPED


# --- asynchronous -------------------------------------------------------------------------------------------------------


def test_one_asynchronous_worker_has_the_losses_of_one_process(gangs: Gangs) -> None:
    """Its parameters are never old."""
    assert ends(gangs.start(1, *SIZE)) == [0]
    assert ends(gangs.start(2, *SIZE, ASYNCHRONOUS)) == [0, 0]

    np.testing.assert_allclose(gangs.losses(2), gangs.losses(1), rtol=0, atol=1e-6)


def test_several_asynchronous_workers_learn_and_each_step_counts_once(gangs: Gangs) -> None:
    """Three workers: the server does as many updates as steps, and the loss falls."""
    assert ends(gangs.start(4, "--steps", "40", ASYNCHRONOUS)) == [0] * 4

    assert [report["step"] for report in gangs.reports(1)] == [*range(1, 41)]
    assert gangs.losses(1)[-1] < gangs.losses(1)[0] * 0.9


def test_surplus_asynchronous_workers_leave_and_the_others_go_on(gangs: Gangs) -> None:
    """One of three is stopped, one is killed, and the last one goes on with the same server, without a restart."""
    server, stopped, killed, left = gangs.start(4, *ENDLESS, ASYNCHRONOUS)
    wait_for(lambda: all(gangs.reports(1, rank) for rank in range(4)))
    stopped.terminate()
    assert stopped.wait(PATIENCE_S) == EXIT_STOPPED
    killed.kill()
    killed.wait(PATIENCE_S)
    done = len(gangs.reports(1, 3))
    wait_for(lambda: len(gangs.reports(1, 3)) >= done + 3)
    server.terminate()

    said = server.communicate(timeout=PATIENCE_S)[0]
    assert server.returncode == EXIT_STOPPED
    assert "goes on without rank 1" in said
    assert "goes on without rank 2" in said
    assert left.wait(PATIENCE_S) == 1


def test_a_hanging_asynchronous_worker_stops_no_other(gangs: Gangs) -> None:
    """The other worker's steps go on, and a worker that never came is not waited for."""
    _, hanging, _, missing = gangs.start(4, *ENDLESS, ASYNCHRONOUS)
    missing.kill()
    wait_for(lambda: all(gangs.reports(1, rank) for rank in range(3)))
    hanging.send_signal(signal.SIGSTOP)
    done = len(gangs.reports(1))

    wait_for(lambda: len(gangs.reports(1)) >= done + 10)


# --- messages -----------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=200))
def test_a_stranger_is_no_worker(content: bytes) -> None:
    """A connection from outside the gang is dropped, whichever bytes it sends; the worker beside it is served."""
    peers = [("127.0.0.1", port) for port in free_ports(2)]
    server = TaskServer(star.listen(peers), 2, 3)
    parameters = np.zeros(2, np.float32)

    def work() -> None:
        for task, answer in tasks(1, peers, parameters, PATIENCE_S):
            answer(np.full(3, task.step, np.float64))

    with socket.create_connection(peers[0], timeout=1.0) as stranger:
        stranger.sendall(content)
        stranger.shutdown(socket.SHUT_WR)
        working = threading.Thread(target=work)
        working.start()
        assert server.wait(lambda: server.idle == [1], PATIENCE_S)
        server.give(1, GradientTask(7, 0, 1), np.ones(2, np.float32))
        assert server.wait(lambda: server.idle, PATIENCE_S)
        (found,) = server.results()
        server.finish()
        server.close()
    working.join()
    assert found[:2] == (1, GradientTask(7, 0, 1))
    assert found[2].tolist() == [7.0, 7.0, 7.0]
    assert parameters.tolist() == [1.0, 1.0]


def test_a_server_that_did_not_run_for_a_while_drops_no_worker_that_has_greeted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What has come in meanwhile is read before the time for a greeting is over; one that says nothing is dropped."""
    peers = [("127.0.0.1", port) for port in free_ports(3)]
    server = TaskServer(star.listen(peers), 3, 3)
    with star.call(1, peers, PATIENCE_S), socket.create_connection(peers[0], timeout=PATIENCE_S) as silent:
        monkeypatch.setattr(star, "GREETING_S", 0.0)
        silent.settimeout(0)

        def is_dropped() -> bool:
            try:
                return silent.recv(1) == b""
            except BlockingIOError:
                return False

        assert server.wait(is_dropped, PATIENCE_S)
        assert server.workers == [1]
    server.close()


def test_a_worker_that_answers_something_else_is_lost() -> None:
    """A result of another step or length is none."""
    peers = [("127.0.0.1", port) for port in free_ports(2)]
    server = TaskServer(star.listen(peers), 2, 3)
    with star.call(1, peers, PATIENCE_S) as worker:
        assert server.wait(lambda: server.idle, PATIENCE_S)
        server.give(1, GradientTask(7, 0, 1), np.ones(2, np.float32))
        worker.sendall(bytes(100))
        assert server.wait(lambda: server.lost, PATIENCE_S)
    server.close()

    assert server.lost == {1: "it sent what it was not asked for"}


def test_a_server_of_another_model_is_none() -> None:
    """A worker that gets other parameters than its model has says so."""
    peers = [("127.0.0.1", port) for port in free_ports(2)]
    server = TaskServer(star.listen(peers), 2, 3)
    said: list[str] = []

    def work() -> None:
        try:
            list(tasks(1, peers, np.zeros(5, np.float32), PATIENCE_S))
        except PeerLost as error:
            said.append(str(error))

    working = threading.Thread(target=work)
    working.start()
    assert server.wait(lambda: server.idle, PATIENCE_S)
    server.give(1, GradientTask(7, 0, 1), np.ones(2, np.float32))
    assert server.wait(lambda: server.lost, PATIENCE_S)
    server.close()
    working.join()

    assert "2 values, not 5" in said[0]

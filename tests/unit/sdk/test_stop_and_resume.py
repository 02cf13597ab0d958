"""SIGTERM means save and exit; a new process continues without a difference."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from steepest_sdk import EXIT_STOPPED

if TYPE_CHECKING:
    from tests.unit.sdk.conftest import Supervisor


@pytest.mark.parametrize("mode", ["on-request", "on-stop"])
def test_stopped_twice_it_ends_where_an_uninterrupted_run_ends(supervisor: Supervisor, mode: str) -> None:
    """A training stopped at steps 20 and 41 and resumed in new processes has the same final weight, bit for bit."""
    whole = supervisor.start_alone()
    assert whole.wait() == 0
    restore = ""
    for stop_at in (20, 41):
        training = supervisor.start("--mode", mode, "--meet-at", str(stop_at), restore=restore)
        training.at(stop_at)
        training.terminate()
        training.go(stop_at)
        assert training.wait() == EXIT_STOPPED
        assert training.reports()[-1]["step"] == stop_at
        assert training.stderr() == ""
        restore = f"step-{stop_at:08d}-i{len(supervisor.started):04d}"
        assert restore in supervisor.saved()
    last = supervisor.start("--mode", mode, restore=restore)
    assert last.wait() == 0
    assert last.hello() == {"checkpoint_mode": mode, "restored_step": 41, "restored": restore}
    assert [report["step"] for report in last.reports()] == list(range(42, 61))
    assert last.result() == whole.result()
    assert supervisor.saved() == ["step-00000020-i0001", "step-00000041-i0002"]


@pytest.mark.parametrize(("loop", "step"), [("epochs", 12), ("silent-epochs", 12), ("bare-epochs", 3)])
def test_epoch_loop_is_left_only_between_epochs(supervisor: Supervisor, loop: str, step: int) -> None:
    """Asked to stop in epoch 3, the script saves at its end, under the steps done if reported, else under the epoch."""
    whole = supervisor.start_alone("--loop", loop, "--total", "9")
    assert whole.wait() == 0
    training = supervisor.start("--loop", loop, "--total", "9", "--meet-at", "3")
    training.at(3)
    training.terminate()
    training.go(3)
    assert training.wait() == EXIT_STOPPED
    assert supervisor.saved() == [f"step-{step:08d}-i0001"]
    resumed = supervisor.start("--loop", loop, "--total", "9", restore=f"step-{step:08d}-i0001")
    assert resumed.wait() == 0
    assert resumed.result() == whole.result()
    if loop == "epochs":
        assert [(report["step"], report["epoch"]) for report in resumed.reports()[:5]] == [
            (13, 4), (14, 4), (15, 4), (16, 4), (17, 5),
        ]  # fmt: skip


def test_job_that_cannot_save_leaves_at_once(supervisor: Supervisor) -> None:
    """Without save there is nothing to wait for: SIGTERM in the middle of a step ends it, with 85."""
    training = supervisor.start("--mode", "none", "--meet-at", "7")
    training.at(7)
    assert training.hello() == {"checkpoint_mode": "none", "restored_step": None, "restored": None}
    training.terminate()
    assert training.wait() == EXIT_STOPPED
    assert supervisor.saved() == []


def test_failed_save_is_reported_and_still_leaves_with_its_own_status(supervisor: Supervisor) -> None:
    """A save that fails on SIGTERM leaves no checkpoint, says why on standard error, and exits with 85."""
    training = supervisor.start("--save-fails", "--meet-at", "7")
    training.at(7)
    training.terminate()
    training.go(7)
    assert training.wait() == EXIT_STOPPED
    assert "step 7 on SIGTERM failed" in training.stderr()
    assert "no room left for this walk" in training.stderr()
    assert supervisor.saved() == []


def test_kill_in_the_middle_of_a_save_costs_only_that_save(supervisor: Supervisor) -> None:
    """SIGKILL while save() runs leaves a hidden folder; the checkpoint before it is restored, the folder cleared."""
    first = supervisor.start("--meet-at", "10")
    first.at(10)
    first.terminate()
    first.go(10)
    assert first.wait() == EXIT_STOPPED
    killed = supervisor.start("--meet-at", "20", "--meet-in-save", restore="step-00000010-i0001")
    killed.at(20)
    killed.terminate()
    killed.go(20)
    killed.at("save")
    killed.process.kill()
    killed.wait()
    assert supervisor.saved() == [".step-00000020-i0002.new", "step-00000010-i0001"]
    resumed = supervisor.start(restore="step-00000020-i0002")
    assert resumed.wait() == 0
    assert resumed.hello()["restored"] == "step-00000010-i0001"
    assert "there is no checkpoint 'step-00000020-i0002'" in resumed.stderr()
    assert supervisor.saved() == ["step-00000010-i0001"]


def test_damaged_checkpoint_gives_way_to_the_one_before_it(supervisor: Supervisor) -> None:
    """A checkpoint with one byte changed is refused with the file's name, and the one before it is restored."""
    for stop_at, restore in ((10, ""), (20, "step-00000010-i0001")):
        training = supervisor.start("--meet-at", str(stop_at), restore=restore)
        training.at(stop_at)
        training.terminate()
        training.go(stop_at)
        assert training.wait() == EXIT_STOPPED
    weight = supervisor.checkpoints / "step-00000020-i0002" / "weight.json"
    weight.write_bytes(bytes([weight.read_bytes()[0] ^ 1]) + weight.read_bytes()[1:])
    resumed = supervisor.start(restore="step-00000020-i0002")
    assert resumed.wait() == 0
    assert resumed.hello()["restored_step"] == 10
    assert "the file 'weight.json' does not match manifest.json" in resumed.stderr()


def test_duty_cycle_changes_nothing(supervisor: Supervisor) -> None:
    """Stopped and continued in every tenth step, SIGTERM sent while it is stopped, it saves as ever."""
    meetings = [str(step) for step in range(10, 51, 10)]
    training = supervisor.start("--meet-at", *meetings)
    for step in meetings:
        training.at(step)
        training.process.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(training.process.pid, os.WUNTRACED)[1])
        training.go(step)
        if step == "50":
            training.terminate()
        training.process.send_signal(signal.SIGCONT)
    assert training.wait() == EXIT_STOPPED
    assert supervisor.saved() == ["step-00000050-i0001"]
    assert [report["step"] for report in training.reports()] == list(range(1, 51))


def test_forked_worker_does_not_inherit_save_and_leave(supervisor: Supervisor) -> None:
    """A forked worker that is sent SIGTERM, even in its first moment, dies of it, rather than set a flag unread."""
    training = supervisor.start("--worker", "struck")
    assert training.wait() == 0
    assert training.folder.joinpath("worker-exit").read_text() == str(-signal.SIGTERM)


FORKS_WITHIN_A_FORK = """
import os, signal, threading
from steepest_sdk.stop import StopSignal

def fork():
    child = os.fork()
    if not child:
        os._exit(signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    _, status = os.waitpid(child, 0)
    print("child", status, flush=True)

def fork_elsewhere():
    if threading.current_thread() is threading.main_thread():
        other = threading.Thread(target=fork)  # SIGTERM is blocked in it, as in the thread that starts it here
        other.start()
        other.join()

os.register_at_fork(before=fork_elsewhere)  # hooks run in the order opposite to that of their registration
StopSignal(exit_immediately=False)
fork()
print("blocked" if signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ()) else "open")
"""


def test_a_fork_within_another_threads_fork_leaves_sigterm_open() -> None:
    """Each thread gets back the mask that it had: neither the training nor its worker is left deaf to SIGTERM."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS_WITHIN_A_FORK], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[-3:-1] == ["child 0", "open"], done.stdout


@pytest.mark.parametrize("worker", ["process", "thread"])
def test_only_the_thread_that_started_the_run_serves(supervisor: Supervisor, worker: str) -> None:
    """A report from a forked process or another thread is written, but the state is saved by its owner alone."""
    training = supervisor.start("--worker", worker)
    training.at("worker-runs")
    training.request(hold_s=0)
    training.go("worker-runs")
    assert training.wait() == 0
    assert training.ack()["step"] > 0
    assert training.folder.joinpath("saved-by").read_text() == f"{training.process.pid} MainThread\n"
    assert training.reports()[0]["metrics"] == {"seen": 1.0}


def test_second_replica_restores_but_never_saves(supervisor: Supervisor) -> None:
    """Replica 0 saves for the job: another one asked to stop exits immediately and writes no checkpoint."""
    training = supervisor.start("--meet-at", "7", replica=1)
    training.at(7)
    training.terminate()
    assert training.wait() == EXIT_STOPPED
    assert supervisor.saved() == []


def test_on_stop_job_proves_once_that_it_can_save(supervisor: Supervisor) -> None:
    """An on-stop job saves at its first report, so that a supervisor that demands a checkpoint may stop it."""
    training = supervisor.start("--mode", "on-stop", "--meet-at", "9")
    training.at(9)
    assert supervisor.saved() == ["step-00000001-i0001"]
    training.go(9)
    assert training.wait() == 0
    assert supervisor.saved() == ["step-00000001-i0001"]


@pytest.mark.parametrize(("loop", "steps"), [("silent-epochs", [4, 8, 12]), ("bare-epochs", [1, 2, 3])])
def test_epoch_without_a_report_is_shown_all_the_same(supervisor: Supervisor, loop: str, steps: list[int]) -> None:
    """A script that only prints shows each epoch done, without metrics: by this a job that was moved is seen to train."""
    training = supervisor.start("--loop", loop, "--total", "3")
    assert training.wait() == 0
    assert [(report["step"], report["metrics"]) for report in training.reports()] == [(step, {}) for step in steps]

"""The supervisor as a separate process: started by its path, controlled by pipes, leaving records."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from steepest.cluster.folders import incarnation_locks
from steepest.cluster.folders.adapter_folder import AdapterFolder, ExitRecord, IncarnationFolder, SpecRecord
from steepest.cluster.local import supervisor
from steepest.cluster.local.duty_cycles import send_order
from steepest.cluster.observation import recorded_end
from steepest.cluster.port import ReplicaId, ReplicaPhase


@pytest.fixture
def folder(tmp_path: Path) -> IncarnationFolder:
    """The folder of an incarnation that was not started."""
    made = AdapterFolder(tmp_path).incarnation(ReplicaId("mnist"), 1)
    made.make(SpecRecord(node="a", command=("x",)))
    return made


def start(folder: IncarnationFolder, script: str, **order: Any) -> dict[str, Any]:
    """Start a shell script under a supervisor; give the supervisor's answer."""
    whole = {
        "program": "/bin/sh",
        "command": ["sh", "-c", script],
        "working_dir": str(folder.work),
        "incarnation": 1,
        "boot": "this",
        "cgroup": None,
        "share": 1000,
        **order,
    }
    lock = incarnation_locks.take(folder.lock, patience_s=0.0)
    assert lock is not None
    command = [sys.executable, "-I", "-S", supervisor.__file__, str(folder.path), str(lock)]
    with folder.supervisor_log.open("wb") as log:
        done = subprocess.run(
            command,
            input=json.dumps(whole).encode(),
            stdout=subprocess.PIPE,
            stderr=log,
            pass_fds=(lock,),
            check=True,
        )
    os.close(lock)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def start_ready(folder: IncarnationFolder, trap: str) -> None:
    """Start a script that never ends by itself, and return once its trap is set."""
    ready = folder.work / "ready"
    os.mkfifo(ready)
    start(folder, f"{trap}; echo > ready; while true; do sleep 0.01; done")
    ready.read_text()  # ends when the script has written


def end(folder: IncarnationFolder) -> ExitRecord | None:
    """How it ended, once its supervisor has let go of the lock."""
    lock = incarnation_locks.take(folder.lock, patience_s=60.0)
    assert lock is not None
    os.close(lock)
    return folder.read(folder.exit, ExitRecord)


def test_it_records_start_output_and_end(folder: IncarnationFolder) -> None:
    """A job that runs through leaves what it printed on both streams, its pid, and its status."""
    answer = start(folder, "echo out; echo err >&2; exit 7")

    assert end(folder) == ExitRecord(status=7)
    assert folder.output.read_text().split() == ["out", "err"]
    assert json.loads(folder.start.read_text())["pid"] == answer["pid"]
    assert folder.supervisor_log.read_text() == ""


def test_the_start_is_on_record_before_the_job_runs(folder: IncarnationFolder) -> None:
    """The first instruction of a job finds its own start on record."""
    start(folder, f"test -s {folder.start}")

    assert end(folder) == ExitRecord(status=0)


def test_a_job_that_cannot_be_put_on_record_does_not_run(folder: IncarnationFolder) -> None:
    """If anything fails before the start is on record, the job never executes an instruction."""
    answer = start(folder, "touch ran", cgroup="/no/such/group")
    end(folder)

    assert "/no/such/group" in answer["why"]
    assert not (folder.work / "ran").exists()


def test_the_job_inherits_no_lock_of_its_supervisor(folder: IncarnationFolder) -> None:
    """The supervisor's lock says that it lives: a job that outlives it must not hold it too."""
    start(
        folder, f"for fd in /proc/self/fd/* /dev/fd/*; do readlink $fd; done | grep -F {folder.lock} && exit 1; exit 0"
    )

    assert end(folder) == ExitRecord(status=0)


def test_a_share_leaves_a_job_its_work(folder: IncarnationFolder) -> None:
    """A job that is stopped and continued all the time does all its work, only later."""
    start(folder, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo $i", share=200)

    assert end(folder) == ExitRecord(status=0)
    assert folder.output.read_text() == "20000\n"


def test_orders_that_are_none_change_nothing(folder: IncarnationFolder) -> None:
    """Garbage in the pipe is reported in the supervisor's log, and the next order is obeyed."""
    start(folder, "sleep 600")
    for order in ("", "what", "stop", "stop now", "share 1 2", "share x", "x" * 9000, "stop 0.0"):
        assert send_order(folder.orders, order)
    ended = end(folder)

    assert ended is not None
    assert ended.status in (-signal.SIGTERM, -signal.SIGKILL)
    assert folder.supervisor_log.read_text().count("not an order") == 7


def test_orders_to_an_ended_incarnation_are_refused(folder: IncarnationFolder) -> None:
    """An order to an ended incarnation is not accepted, so that no caller waits for it to be obeyed."""
    assert not send_order(folder.orders, "stop 0")
    start(folder, "exit 0")
    end(folder)

    assert not send_order(folder.orders, "stop 0")


def test_a_second_stop_can_only_hasten_the_end(folder: IncarnationFolder) -> None:
    """SIGTERM comes once; a shorter grace brings SIGKILL nearer, and a longer one does not defer it."""
    start_ready(folder, "trap 'echo term' TERM")
    for grace_s in (600, 0.5, 600):
        send_order(folder.orders, f"stop {grace_s}")
    ended = end(folder)

    assert ended is not None
    assert ended.status == -signal.SIGKILL
    assert "killed" in ended.reason
    assert folder.output.read_text().count("term") == 1


@pytest.mark.parametrize("trap", ["trap 'exit 85' TERM", "true"])
@pytest.mark.parametrize("first", ["supervisor", "pid"])
def test_a_shutdown_of_the_machine_is_no_failure_of_the_job(folder: IncarnationFolder, trap: str, first: str) -> None:
    """It sends SIGTERM to every process, in any order: the supervisor passes it on, and the end is its place's."""
    start_ready(folder, trap)
    started = json.loads(folder.start.read_text())
    for process in (first, *{"supervisor", "pid"} - {first}):
        os.kill(started[process], signal.SIGTERM)
    recorded = end(folder)
    seen = recorded_end(folder)

    assert recorded is not None
    assert recorded.status == (85 if "exit" in trap else -signal.SIGTERM)
    assert seen is not None
    assert (seen.phase, seen.exit_status) == (ReplicaPhase.GONE, None)
    assert str(recorded.status) in seen.reason


def test_a_job_that_is_killed_while_its_machine_stays_has_failed(folder: IncarnationFolder) -> None:
    """A SIGTERM to the job alone is somebody's, and its own end."""
    start_ready(folder, "true")
    os.kill(json.loads(folder.start.read_text())["pid"], signal.SIGTERM)

    assert end(folder) == ExitRecord(status=-signal.SIGTERM)


def test_a_job_that_finishes_in_a_shutdown_has_finished(folder: IncarnationFolder) -> None:
    """Status 0 is its own word."""
    start_ready(folder, "trap 'exit 0' TERM")
    os.kill(json.loads(folder.start.read_text())["supervisor"], signal.SIGTERM)
    end(folder)
    seen = recorded_end(folder)

    assert seen is not None
    assert (seen.phase, seen.exit_status) == (ReplicaPhase.EXITED, 0)


def small_files(monkeypatch_of: dict[str, int], folder: IncarnationFolder) -> Path:
    """A supervisor as it is, but for some of its numbers."""
    source = Path(supervisor.__file__).read_text()
    for name, value in monkeypatch_of.items():
        source, changed = re.subn(rf"^{name} = [^#\n]*", f"{name} = {value}", source, flags=re.MULTILINE)
        assert changed == 1
    made = folder.path / "supervisor.py"
    made.write_text(source)
    return made


def test_what_is_printed_is_kept_in_two_files(folder: IncarnationFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that prints without end fills no disk: its newest output is kept, whole lines in their order."""
    monkeypatch.setattr(supervisor, "__file__", str(small_files({"OUTPUT_BYTES_MOST": 100_000}, folder)))
    start(folder, "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); echo $i; done")

    assert end(folder) == ExitRecord(status=0)
    kept = (folder.path / "output.log.1").read_bytes() + folder.output.read_bytes()
    assert len(kept) <= 200_000
    numbers = [int(line) for line in kept.split(b"\n")[1:-1]]
    assert numbers == list(range(numbers[0], 60_001))


def test_a_job_that_prints_too_much_waits(folder: IncarnationFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond its burst a job prints as fast as is kept, and nothing of it is lost."""
    numbers = {"OUTPUT_BURST_BYTES": 10_000, "OUTPUT_BYTES_S": 1_000_000}
    monkeypatch.setattr(supervisor, "__file__", str(small_files(numbers, folder)))
    start(folder, "head -c 1500000 /dev/zero")

    assert end(folder) == ExitRecord(status=0)
    assert folder.output.stat().st_size == 1_500_000


def test_who_was_given_the_output_keeps_nobody(folder: IncarnationFolder) -> None:
    """A job ends with its own processes, though another one still holds the pipe that it printed into."""
    pipe = folder.work / "pipe"
    os.mkfifo(pipe)
    start(folder, "echo one; echo /proc/$$/fd/1 > pipe; read x < pipe; echo two")
    with open(pipe.read_text().strip(), "wb") as held:  # noqa: PTH123 - a link of the kernel's
        pipe.write_text("go\n")

        assert end(folder) == ExitRecord(status=0)
        assert folder.output.read_text() == "one\ntwo\n"
        assert held.writable()

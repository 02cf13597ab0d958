"""The daily use of the embedded system, from outside: a real ``steepest up``, real jobs, the real command line."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.harness.child import child
from tests.harness.contracts import contract_job
from tests.harness.system.running_system import CLUSTER, PATIENCE_S, STEEPEST, RunningSystem, ignored
from tests.harness.waiting import until

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.log.base import NewRecord
from steepest.log.files.file_log import FileLog

QUICK = ("--interval", "300ms", "--heartbeat", "150ms", "--policy", "specon", "--alpha", "0.05")
JOB = (sys.executable, contract_job.__file__)
LINEAR = (sys.executable, "-m", "steepest_lab.jobs.linear", "--work", "0.05")


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSystem]:
    """A system that runs for all tests of this file; each uses jobs of its own."""
    running = RunningSystem(
        tmp_path_factory.mktemp("embedded") / "state", *QUICK, "--node", "a=0.8", "--node", "b=0.5", "--metrics", "0"
    )
    running.start()
    yield running
    running.end()


def test_a_job_goes_from_its_submission_to_its_end(system: RunningSystem) -> None:
    """A real training is submitted, placed, measured and finishes; its story lists these events in order."""
    system.submit("linear", *LINEAR, "--steps", "60")

    assert system.await_end("linear").outcome is c.Outcome.FINISHED
    job = system.job("linear")
    assert (job["phase"], job["outcome"], job["exit_status"]) == ("ended", "finished", 0)
    entries = [entry["type"] for entry in system.ask("explain", "linear")["entries"]]
    assert entries[:4] == ["JobSubmitted", "JobAdmitted", "PlacementPlanned", "StepBegun"]
    assert entries[-1] == "JobEnded"


def test_submit_wait_reports_how_a_job_ended(system: RunningSystem) -> None:
    """``submit --wait`` exits with 0 for a job that finishes and with 1 for one that fails, and prints its outcome."""
    finished = system.call("submit", "--wait", "--name", "good", "--", *JOB, "--steps", "3")
    failed = system.call("submit", "--wait", "--name", "bad", "--", *JOB, "--steps", "3", "--exit", "7")

    assert (finished.returncode, finished.stdout.splitlines()[-1]) == (0, "good finished")
    assert (failed.returncode, failed.stdout.splitlines()[-1]) == (1, "bad failed: it exited with status 7")


def test_a_cancelled_job_stops_for_good(system: RunningSystem) -> None:
    """``cancel`` returns once the job's process has left, and a second one is refused."""
    system.submit("endless", *JOB)
    system.await_event(lambda found: _started(found, "endless"))

    done = system.call("cancel", "endless")
    again = system.call("cancel", "endless")

    assert (done.returncode, done.stdout) == (0, "endless was cancelled\n")
    assert (again.returncode, again.stderr) == (2, "Error: endless is over already: it was cancelled\n")
    assert system.job("endless")["alive"] is False


def test_what_a_job_prints_can_be_followed(system: RunningSystem) -> None:
    """``logs --follow`` prints each line while the job runs, and ends when the job is over."""
    script = "print('begins', flush=True); input_ = open('go'); print('goes'); raise SystemExit('broken')"
    fifo = system.state.parent / "go"
    os.mkfifo(fifo)
    system.submit("spoken", sys.executable, "-c", script, options=("--workdir", str(fifo.parent)))
    with child([*STEEPEST, "logs", "--state", str(system.state), "--follow", "spoken"]) as follow:
        assert follow.stdout is not None
        assert follow.stdout.readline() == "begins\n"
        fifo.open("w").close()
        rest = follow.stdout.read()

    assert rest == "goes\nbroken\n"
    assert system.call("logs", "spoken").stdout == "begins\ngoes\nbroken\n"
    assert system.ask("explain", "spoken")["printed"] == ["begins", "goes", "broken"]
    system.await_line("spoken printed: broken")


def test_losses_are_read_by_a_pattern_of_the_users(system: RunningSystem) -> None:
    """A job whose lines no known format reads is measured by ``submit --pattern``."""
    script = "import time\nfor i in range(10**6): print(f'turn {i} price={1 / (i + 1)}', flush=True); time.sleep(0.05)"
    options = ("--pattern", r"turn (?P<step>\d+) price=(?P<value>\S+)")
    system.submit("priced", sys.executable, "-c", script, options=options)
    system.await_event(
        lambda found: (isinstance(found.event, c.GrowthMeasured) and found.event.job == "priced") or None
    )
    system.call("cancel", "priced")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_events_can_be_followed(system: RunningSystem, number: signal.Signals) -> None:
    """``events --follow`` prints an event when it happens, as one JSON object a line, and a signal ends it well.

    This includes an interrupt of a process that was started with interrupts ignored, as shells start background jobs.
    """
    command = [*STEEPEST, "events", "--state", str(system.state), "--follow", "--json", "--since", "0"]
    command += ["--job", f"followed-{number}"]
    with ignored(signal.SIGINT), child(command) as follow:
        assert follow.stdout is not None
        system.submit(f"followed-{number}", *JOB, "--steps", "3")
        types = []
        while "JobEnded" not in types:
            types.append(json.loads(follow.stdout.readline())["event"]["type"])
        follow.send_signal(number)

    assert types[:2] == ["JobSubmitted", "JobAdmitted"]
    assert follow.returncode == 0


def test_a_reader_may_leave(system: RunningSystem) -> None:
    """``events`` piped into a program that exits early prints no error and exits with 0."""
    command = [*STEEPEST, "events", "--state", str(system.state), "--follow", "--all", "--since", "0"]
    with child(command) as follow:
        assert follow.stdout is not None
        assert follow.stderr is not None
        assert "the log begins" in follow.stdout.readline()
        follow.stdout.close()
        complaint = follow.stderr.read()  # ends when the next tick finds the pipe closed

    assert (follow.returncode, complaint) == (0, "")


def test_nodes_hold_what_their_jobs_reserve(system: RunningSystem) -> None:
    """``nodes`` shows capacity, reservation and jobs, by the same numbers as ``jobs``."""
    system.submit("holder", *JOB, options=("--cpu", "0.2"))
    node = system.await_event(lambda found: _started(found, "holder"))

    found = next(each for each in system.ask("nodes") if each["node"] == node)

    assert "holder" in found["jobs"]
    assert found["reserved"]["cpu_m"] >= 200
    assert found["reserved"]["cpu_m"] <= found["capacity"]["cpu_m"]
    system.call("cancel", "holder")


def test_monitoring_sees_a_system_that_is_ready(system: RunningSystem) -> None:
    """/healthz says yes, so does /readyz once every loop has caught up, /metrics counts records; there is no other page."""
    port = int(system.await_line("metrics on").removesuffix("/metrics").rpartition(":")[2])

    asyncio.run(until(lambda: _get(port, "/readyz") == (200, "yes\n"), within_s=PATIENCE_S))
    assert _get(port, "/healthz") == (200, "yes\n")
    assert "steepest_records_total" in _get(port, "/metrics")[1]
    assert _get(port, "/else") == (404, "there are /metrics, /healthz and /readyz\n")


def _get(port: int, page: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", page)
        response = connection.getresponse()
        return response.status, response.read().decode()


def test_a_second_system_is_refused(system: RunningSystem) -> None:
    """One folder has one system; the second one says which process it is, and exits with 2."""
    second = system.call("up")

    assert second.returncode == 2
    assert second.stderr == (
        f"Error: a Steepest runs on {system.state} already (process {system.pid}); "
        f"stop it with `steepest down --state {system.state}`\n"
    )


# --- what comes from outside and is wrong -------------------------------------------------------------------------------


def test_a_missing_script_causes_a_warning_and_fails_by_name(system: RunningSystem, tmp_path: Path) -> None:
    """The warning comes immediately, the job fails with what the interpreter says, and nothing else is touched."""
    done = system.call(
        "submit", "--wait", "--force", "--name", "lost", "--", sys.executable, "nowhere.py", cwd=tmp_path
    )

    warning, printed = done.stderr.splitlines()
    assert warning == f"Warning: there is no script {tmp_path / 'nowhere.py'}"
    assert printed.startswith("lost printed: ")
    assert printed.endswith("No such file or directory")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "lost failed: it exited with status 2")


def test_a_program_that_is_not_there_fails_at_its_start(system: RunningSystem) -> None:
    """A retry would not help, so the job is not retried, and the reason names the program."""
    done = system.call(
        "submit", "--wait", "--force", "--name", "no-program", "--retries", "3", "--", "no-such-program-anywhere"
    )

    assert done.returncode == 1
    assert "there is no program 'no-such-program-anywhere'" in done.stdout.splitlines()[-1]
    assert system.job("no-program")["retries_used"] == 0


BAD_OUTPUT = {
    "garbage": "import os; os.write(1, bytes(range(256)) * 400 + b'\\n')",
    "nan": "[print(f'step {n} loss: nan', flush=True) for n in range(20)]",
    "long-lines": "[print('x' * 10_000_000) for _ in range(3)]",
    "backwards": "[print(f'step {n} loss: {1 / (1 + n)}', flush=True) for n in [1, 2, 3, 1, 2, 9, 4]]",
    "no-loss": "print('nothing to report')",
}


@pytest.mark.parametrize("kind", BAD_OUTPUT)
def test_what_a_job_prints_never_stops_anything(system: RunningSystem, kind: str) -> None:
    """Garbage, losses that are no numbers, lines of 10 MB, steps that go back and silence: the job finishes."""
    name = f"prints-{kind}"
    system.submit(name, sys.executable, "-c", BAD_OUTPUT[kind])

    assert system.await_end(name).outcome is c.Outcome.FINISHED


def test_a_job_that_is_killed_is_tried_again_within_its_limit(system: RunningSystem) -> None:
    """SIGKILL of the process costs a retry; when none is left, the job fails and says by which signal."""
    system.submit("hunted", sys.executable, "-c", KILLS_ITSELF, options=("--retries", "1"))

    ended = system.await_end("hunted")

    assert (ended.outcome, ended.exit_status) == (c.Outcome.FAILED, -signal.SIGKILL)
    assert "killed by signal 9" in ended.reason
    assert (system.job("hunted")["retries_used"], system.job("hunted")["incarnation"]) == (1, 2)


KILLS_ITSELF = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


def test_a_name_is_used_once(system: RunningSystem) -> None:
    """A second job of a name is refused while the first one is not over, and the first one is as it was."""
    system.submit("twin", *JOB)
    second = system.call("submit", "--name", "twin", "--", *JOB)

    assert second.returncode == 2
    assert second.stderr == "Error: twin is rejected: a job named twin is there already; choose another name\n"
    assert system.call("cancel", "twin").stdout == "twin was cancelled\n"
    system.submit("twin", *JOB, "--steps", "2")
    assert system.await_end("twin.2").outcome is c.Outcome.FINISHED


def test_a_job_larger_than_every_node_is_refused_immediately(system: RunningSystem) -> None:
    """The message names the largest node, and nothing is written to the log."""
    refused = system.call("submit", "--name", "giant", "--cpu", "9", "--", *JOB)

    assert refused.returncode == 2
    assert refused.stderr == (
        "Error: the job asks for 9000m CPU, more than any node has; ask for less CPU: the largest, a, has 800m CPU\n"
    )
    assert system.call("explain", "giant").returncode == 2


def test_an_unreadable_record_is_skipped(system: RunningSystem) -> None:
    """It becomes a dead letter with its reason; the system continues, and ``events`` prints its position."""
    offset = _append_raw(system, b'{"type": "NobodyKnows"}')
    system.submit("after-garbage", *JOB, "--steps", "2")

    assert system.await_end("after-garbage").outcome is c.Outcome.FINISHED
    shown = system.call("events", "--since", str(offset)).stdout.splitlines()[0]
    assert "this record cannot be read: no event of topic cluster" in shown
    assert "cannot be read" not in system.call("events", "--job", "after-garbage").stdout
    letters = system.call("events", "--topic", "dead-letters").stdout
    assert f"offset={offset}" in letters


def test_every_invariant_of_the_log_holds(system: RunningSystem) -> None:
    """After all that these tests did to the system, each invariant of its log holds."""
    assert system.breaches() == []


def _append_raw(system: RunningSystem, value: bytes) -> int:
    async def append() -> int:
        log = FileLog.open(system.state / "log")
        try:
            return (await log.append([NewRecord(to=CLUSTER, key="default", value=value, at_ms=1)]))[0]
        finally:
            await log.close()

    return asyncio.run(append())


def _started(found: Received[c.ClusterEvent], job: str) -> str | None:
    event = found.event
    return event.node if isinstance(event, c.ReplicaStarted) and event.job == job else None

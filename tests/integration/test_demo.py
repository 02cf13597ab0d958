"""The demo from outside: the real command line, real trainings, and the files that remain."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from tests.harness.processes import with_command_lines
from tests.harness.system.running_system import STEEPEST

from steepest.events import cluster as c
from steepest.events.loss import LossReported
from steepest.events.received import Received
from steepest.invariants import Status, check
from steepest.log.base import TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.runtime.decode import received

PATIENCE_S = 100


def demo(state: Path, *options: str) -> subprocess.Popen[str]:
    """A demo of few short trainings, in a process of its own."""
    command = [*STEEPEST, "demo", "--state", str(state), "--jobs", "2", "--length", "0.04", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def events(recording: Path, topic: str = "cluster") -> list[Any]:
    """All events of a topic in a recording."""
    return asyncio.run(_events(recording, topic))


async def _events(recording: Path, topic: str) -> list[Any]:
    log = FileLog.open(recording, read_only=True)
    try:
        return [each for at in await log.partitions(topic) for each in await _partition(log, at)]
    finally:
        await log.close()


async def _partition(log: FileLog, at: TopicPartition) -> list[Received[Any]]:
    reader, found = log.reader({at: 0}), list[Received[Any]]()
    try:
        while len(found) < await log.end(at):
            found.extend(received(record) for record in await reader.poll())
    finally:
        await reader.close()
    return found


def left_running(state: Path) -> list[list[str]]:
    """The command lines of processes that work for a state folder."""
    folder = str(state)
    found = []
    for process, line in with_command_lines():
        with contextlib.suppress(psutil.Error):
            if folder in " ".join([process.environ().get("STEEPEST_CONTROL", ""), *line]):
                found.append(line)
    return found


class Run(NamedTuple):
    """A demo that has ended: its folder, the object that it printed, and what it left running."""

    state: Path
    figures: dict[str, Any]
    left: list[list[str]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A whole small demo, with a comparison and a picture."""
    state = tmp_path_factory.mktemp("demo") / "state"
    process = demo(state, "--json", "--compare", "--svg", str(state.parent / "demo.svg"))
    printed, complaints = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, complaints) == (0, "")
    return Run(state, json.loads(printed), left_running(state))


def test_demo_prints_one_object_with_its_figures(run: Run) -> None:
    """Every job finished, no step was lost, and the recording is where the object says."""
    figures = run.figures

    assert (figures["jobs"], figures["finished"], figures["failed"], figures["steps_lost"]) == (2, 2, 0, 0)
    assert {"migrations", "stays", "rebalances", "seconds"} <= figures.keys()
    assert figures["recording"] == str(run.state / "log")
    assert not figures["interrupted"]


def test_figures_are_those_of_the_recording(run: Run) -> None:
    """Counting in the log gives the same figures."""
    figures = run.figures
    log = [record.event for record in events(Path(figures["recording"]))]
    plans = {event.plan: event.kind for event in log if isinstance(event, c.MigrationPlanned)}
    arrived = [plans[event.plan] for event in log if isinstance(event, c.MigrationFinished)]

    assert figures["migrations"] == len(arrived)
    assert figures["rebalances"] == arrived.count(c.MoveKind.REBALANCE)
    assert figures["stays"] == sum(isinstance(event, c.StayDecided) for event in log)
    assert figures["finished"] == sum(
        isinstance(event, c.JobEnded) and event.outcome is c.Outcome.FINISHED for event in log
    )


def test_recording_keeps_to_all_invariants(run: Run) -> None:
    """Every invariant of a pool's log holds, with moves and without."""
    for recording in (each for pair in run.figures["comparison"]["recordings"] for each in pair):
        assert [each for each in check(events(Path(recording))) if each.status is not Status.HOLDS] == []


def test_losses_are_read_from_reports_and_from_printed_lines(run: Run) -> None:
    """The losses of every job are in the recording, also of the job that only prints them."""
    losses = [record.event for record in events(Path(run.figures["recording"]), "loss")]

    assert {loss.job for loss in losses if isinstance(loss, LossReported)} == {"softmax-1", "linear-1"}


def test_second_run_begins_where_the_first_one_did(run: Run) -> None:
    """A comparison starts every job on the same node again, and moves none."""
    compared = run.figures["comparison"]
    second = [record.event for record in events(Path(compared["recordings"][0][1]))]
    placed = {event.job: event.node for event in second if isinstance(event, c.JobPlaced)}

    assert placed == {job["job"]: job["nodes"][0] for job in run.figures["per_job"]}
    assert [job["job"] for job in compared["per_job"]] == list(placed)
    assert not any(isinstance(event, c.MigrationPlanned) for event in second)


def test_picture_is_written(run: Run) -> None:
    """The file asked for holds the picture."""
    assert (run.state.parent / "demo.svg").read_text().startswith("<svg")


def test_demo_leaves_nothing_running(run: Run) -> None:
    """Once it has ended, no process works for its folder."""
    assert run.left == []


@pytest.mark.long
def test_a_run_by_itself_is_compared_with_a_simulation_of_fair_sharing(tmp_path: Path) -> None:
    """Under the demo's own policy, with the simulation's error; no pair was run, so there is no comparison."""
    process = demo(tmp_path / "state", "--json")
    printed, complaints = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, complaints) == (0, "")
    figures = json.loads(printed)

    assert "comparison" not in figures
    assert (figures["what_if"]["why_not"], figures["what_if"]["policy"]) == ("", "steepest")
    assert figures["what_if"]["error"] > 0
    measured = {figure["name"]: figure["measured_s"] for figure in figures["what_if"]["figures"]}
    assert measured["completion_s"] == figures["headline"]["completion_s"]


@pytest.mark.long
@pytest.mark.timeout(400)
def test_the_default_demo_suspends_a_gang_for_an_urgent_job(tmp_path: Path) -> None:
    """The gang is placed whole, gives way and goes on, and no job loses a step.

    A shorter gang may be over on an idle machine when the urgent job comes.
    """
    command = [*STEEPEST, "demo", "--state", str(tmp_path / "state"), "--length", "0.6", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    figures = json.loads(done.stdout)

    assert (figures["finished"], figures["failed"], figures["steps_lost"]) == (figures["jobs"], 0, 0)
    assert figures["gangs"] == 1
    assert figures["suspensions"] == figures["resumptions"] >= 1
    assert figures["limits"] > 0


def test_interrupted_demo_stops_its_jobs(tmp_path: Path) -> None:
    """Ctrl-C: it says so, ends with 130, every job is over in the recording, and nothing is left running."""
    state = tmp_path / "state"
    process = demo(state)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("The live page of this run: http://127.0.0.1:")
    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    rest, complaints = process.communicate(timeout=PATIENCE_S)

    assert "start planned on" in first
    assert (process.returncode, complaints) == (130, "")
    assert "interrupted: all jobs were stopped" in rest
    assert "\x1b" not in first + rest
    ends = [record.event for record in events(state / "log") if isinstance(record.event, c.JobEnded)]
    submitted = [record.event for record in events(state / "log") if isinstance(record.event, c.JobSubmitted)]
    assert {end.job for end in ends} == {job.job for job in submitted}
    assert left_running(state) == []


def test_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    """One line that names the folder, exit status 2, and nothing is touched."""
    (tmp_path / "thesis.tex").touch()
    process = demo(tmp_path)
    printed, complaint = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, printed) == (2, "")
    assert complaint.count("\n") == 1
    assert f"{tmp_path} is not empty" in complaint
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_trainings_with_faults_are_found_and_dealt_with(tmp_path: Path) -> None:
    """What hangs and what diverges is restarted and finishes; what idles is suspended. A message says each of them."""
    pytest.importorskip("apprise", reason="make dev")
    state = tmp_path / "state"
    process = demo(state, "--faults", "--json", "--length", "0.25", "--jobs", "1")
    printed, complaints = process.communicate()
    assert (process.returncode, complaints) == (0, "")
    figures = json.loads(printed)
    log = [record.event for record in events(Path(figures["recording"]))]
    reacted = {event.job: event.kind for event in log if isinstance(event, c.ReactionPlanned)}
    outcomes = {job["job"]: job["outcome"] for job in figures["per_job"]}
    notified = {(event.to, event.kind) for event in log if isinstance(event, c.TargetNotified) and not event.over}

    assert reacted == {"faulty-hang": "hung", "faulty-diverge": "diverged", "faulty-idle": "idle"}
    assert (outcomes["faulty-hang"], outcomes["faulty-diverge"]) == ("finished", "finished")
    assert {("hang", "hung"), ("diverge", "diverged"), ("idle", "idle")} <= notified
    assert sum("faulty-idle is idle: " in said for said in figures["messages"]) == 1
    assert [each for each in check(events(Path(figures["recording"]))) if each.status is Status.BROKEN] == []

"""A system is started, stopped and started again, and survives a full disk; its state folder identifies it."""

from __future__ import annotations

import asyncio
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from tests.harness.contracts import contract_job
from tests.harness.system.running_system import RunningSystem, ignored
from tests.harness.waiting import until

from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import StateFolder
from steepest.cli.pool.stored_pool import StoredPool, fold, look, reading
from steepest.cli.system.shutdown import stop_all
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c
from steepest.events.received import Received

E = TypeVar("E")

OPTIONS = ("--interval", "300ms", "--heartbeat", "150ms", "--node", "only=0.8")
JOB = (sys.executable, contract_job.__file__)
PLAIN = (sys.executable, "-c", "import time; time.sleep(600)")


@pytest.fixture
def system(tmp_path: Path) -> Iterator[RunningSystem]:
    """A system that was never started."""
    running = RunningSystem(tmp_path / "state", *OPTIONS)
    yield running
    running.end()


def test_down_leaves_nothing_running_and_up_goes_on(system: RunningSystem) -> None:
    """Jobs that save resume from their checkpoint, others start again, and neither is charged a retry for it."""
    system.start()
    system.submit("saves", *JOB)
    system.submit("plain", *PLAIN)
    system.await_event(lambda found: _runs(found, "saves", 1))
    system.await_event(lambda found: _runs(found, "plain", 1))

    down = system.ask("down")
    stopped = {job["job"]: job for job in down["jobs"]}

    assert down["process"] == system.pid
    assert system.wait() == 0
    assert sorted(stopped) == ["plain", "saves"]
    assert stopped["saves"]["saved_step"] == stopped["saves"]["step"]
    assert system.ask("down") == {"process": None, "jobs": []}
    assert [(job["phase"], job["alive"]) for job in system.ask("jobs")] == [("stopped", False)] * 2

    system.start()
    system.await_event(lambda found: _runs(found, "saves", 2))
    system.await_event(lambda found: _runs(found, "plain", 2))
    system.await_event(lambda found: _placed(found, "saves", 2))
    system.await_event(lambda found: _placed(found, "plain", 2))
    placed = {event.job: event for event in _all(system, c.JobPlaced) if event.incarnation == 2}
    assert placed["saves"].restore is not None
    assert placed["saves"].restore.step == stopped["saves"]["saved_step"]
    assert placed["plain"].restore is None
    assert [system.job(name)["retries_used"] for name in ("saves", "plain")] == [0, 0]
    assert system.breaches() == []


def test_a_job_can_be_interrupted_wherever_up_was_started(system: RunningSystem) -> None:
    """A shell starts background processes with interrupts ignored; a job starts with their default."""
    asks = "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    with ignored(signal.SIGINT):
        system.start()
    system.submit("asks", sys.executable, "-c", asks)

    assert system.await_end("asks").exit_status == 0


def test_jobs_can_be_kept_running(system: RunningSystem) -> None:
    """After ``down --keep-jobs`` the same processes train on, and the next system takes them over as they are."""
    system.start()
    system.submit("kept", *JOB)
    system.await_event(lambda found: _runs(found, "kept", 1))

    assert system.call("down", "--keep-jobs").returncode == 0
    system.wait()
    assert (system.job("kept")["phase"], system.job("kept")["alive"]) == ("running", True)
    system.start()

    assert "1 job running" in system.await_line("caught up")
    assert (system.job("kept")["alive"], system.job("kept")["incarnation"]) == (True, 1)


def test_a_job_that_finishes_while_the_system_stops_is_named(system: RunningSystem, tmp_path: Path) -> None:
    """No system saw its end, so that `down` says it; one that had finished before is not said again."""
    system.start()
    began_s, go = time.time(), tmp_path / "go"
    system.submit("last", "sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done")
    system.await_event(lambda found: _runs(found, "last", 1))
    system.call("down", "--keep-jobs")
    system.wait()
    go.touch()
    folder = StateFolder(system.state)
    end = AdapterFolder(folder.cluster).incarnation(ReplicaId("last", 0), 1).exit
    asyncio.run(until(end.exists))

    stopped = asyncio.run(stop_all(folder, folder.read(), grace_s=0.2, since_s=began_s))
    assert [str(one) for one in stopped] == ["last finished just now"]
    assert asyncio.run(stop_all(folder, folder.read(), grace_s=0.2, since_s=time.time() + 1)) == []


@pytest.mark.long
def test_requests_to_a_stopped_system_wait_in_the_log(system: RunningSystem) -> None:
    """A submission and a cancel are kept, reported as kept, and answered by the next system."""
    system.start()
    assert system.call("down").returncode == 0
    system.wait()

    asked = system.call("submit", "--name", "later", "--", *JOB, "--steps", "2")
    dropped = system.call("submit", "--name", "dropped", "--", *JOB)
    cancelled = system.call("cancel", "dropped")
    assert (asked.returncode, asked.stdout) == (0, "later waits in the log\n")
    assert asked.stderr == f"Warning: the system does not run on {system.state}; start it with `steepest up`\n"
    assert (dropped.returncode, cancelled.returncode) == (0, 0)
    assert [job["admitted"] for job in system.ask("jobs")] == [False, False]

    system.start()
    assert system.await_end("later").outcome is c.Outcome.FINISHED
    assert system.await_end("dropped").outcome is c.Outcome.CANCELLED


def test_a_snapshot_saves_time_and_changes_nothing(system: RunningSystem) -> None:
    """Commands read the same from a snapshot and its tail as from the whole log."""
    system.start()
    system.submit("short", *JOB, "--steps", "3")
    system.await_end("short")
    system.call("down")
    system.call("submit", "--name", "tail", "--", *JOB)
    assert list((system.state / "snapshots").iterdir())

    assert look(read_settings({"state_dir": system.state})).view.state == asyncio.run(_whole(system.state)).view.state


async def _whole(state: Path) -> StoredPool:
    settings = read_settings({"state_dir": state})
    async with reading(settings) as (installation, log):
        return await fold(settings, installation, log, on_record=lambda *_, **__: None)


@pytest.mark.long
def test_parameters_change_when_asked_and_stay_otherwise(system: RunningSystem) -> None:
    """--alpha at a later start replaces α and nothing else; a start without it leaves what the log holds."""
    system.start()
    for options in (("--alpha", "0.2"), ("--interval", "5s"), ()):
        system.call("down")
        system.wait()
        system.start(*options)
        system.await_line("caught up")
        if options:
            system.await_line("parameters in force")

    in_force = [event.parameters.specon for event in _all(system, c.PoolConfigured)]

    assert [(specon.alpha, specon.interval_ms) for specon in in_force] == [(0.01, 300), (0.2, 300), (0.2, 5_000)]


def test_a_folder_keeps_its_nodes(system: RunningSystem) -> None:
    """Other nodes for a folder that is there are refused, with those that it has."""
    system.start()
    system.call("down")

    refused = system.call("up", "--node", "other=1")

    assert refused.returncode == 2
    assert "with the nodes only=800m and a heartbeat of 150 ms; leave --node and --heartbeat out" in refused.stderr


def test_a_folder_keeps_its_links(system: RunningSystem) -> None:
    """Links for a folder without any are refused, and where they cannot be made, no folder is."""
    nowhere = system.call("up", "--link-mbit", "10", "--cluster", "docker")
    assert nowhere.returncode == 2
    assert "links" in nowhere.stderr
    assert not system.state.exists()
    system.start()
    system.call("down")

    refused = system.call("up", "--link-mbit", "10")

    assert refused.returncode == 2
    assert "with no links; leave --link-mbit out" in refused.stderr


def test_a_folder_of_another_version_is_left_alone(system: RunningSystem) -> None:
    """Every command refuses it with both versions, and changes nothing in it."""
    system.state.mkdir()
    there = system.state / "steepest.json"
    there.write_text('{"version": 99}')

    refused = [system.call(*call) for call in (("up",), ("jobs",), ("submit", "true"), ("down",), ("events",))]

    message = f"Error: the state folder {system.state} is of version 99, and this Steepest knows 1 and 2"
    assert all(each.stderr.startswith(message) for each in refused)
    assert {each.returncode for each in refused} == {2}
    assert [path.name for path in system.state.iterdir()] == ["steepest.json"]


def test_no_folder_is_a_clear_error(system: RunningSystem) -> None:
    """Commands say that there is no state folder and how to make one, and make none."""
    refused = system.call("jobs", "--json")

    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"Error: no state folder at {system.state}; start one with `steepest up`, or name another with --state\n"
    )
    assert not system.state.exists()


@pytest.mark.long
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can limit another process's files")
def test_a_full_disk_is_reported_and_survived(system: RunningSystem) -> None:
    """The log accepts no records: the system reports it and continues as soon as there is room; its jobs train on."""
    system.start()
    system.submit("trains", *JOB, "--steps", "400")
    system.await_event(lambda found: _runs(found, "trains", 1))
    full = (system.state / "log" / "cluster" / "0.jsonl").stat().st_size
    unlimited = resource.prlimit(system.pid, resource.RLIMIT_FSIZE)

    resource.prlimit(system.pid, resource.RLIMIT_FSIZE, (full, unlimited[1]))
    line = system.await_line("cannot be written to")
    assert "Free disk space" in line or "File too large" in line
    assert system.ask("jobs")[0]["job"] == "trains"
    resource.prlimit(system.pid, resource.RLIMIT_FSIZE, unlimited)

    assert system.await_end("trains").outcome is c.Outcome.FINISHED
    assert system.job("trains")["incarnation"] == 1
    assert system.breaches() == []


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux can limit another process's files")
def test_a_system_can_be_stopped_while_the_disk_is_full(system: RunningSystem) -> None:
    """``down`` does not wait for room: unsaved state is rebuilt at the next start."""
    system.start()
    limit = resource.prlimit(system.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(system.pid, resource.RLIMIT_FSIZE, (1, limit[1]))
    system.await_line("cannot be written to")

    assert system.call("down").returncode == 0
    system.wait()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_system_whose_own_output_finds_no_room_goes_on(system: RunningSystem) -> None:
    """``nohup steepest up > up.log`` on the disk that is full: no line of it ends the system."""
    call = [sys.executable, "-m", "steepest", "up", "--state", str(system.state), *OPTIONS]
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(call, stdout=full, stderr=full)
    try:
        asyncio.run(until(system.state.joinpath("steepest.json").exists))
        system.submit("job", "true")
        assert system.await_end("job").outcome is c.Outcome.FINISHED
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait()


def _runs(found: Received[c.ClusterEvent], job: str, incarnation: int) -> bool | None:
    event = found.event
    is_it = isinstance(event, c.ReplicaStarted) and (event.job, event.incarnation) == (job, incarnation)
    return True if is_it else None


def _placed(found: Received[c.ClusterEvent], job: str, incarnation: int) -> bool | None:
    """Match the job's placement; a heartbeat may report the process before ReplicaStarted is on the log."""
    event = found.event
    is_it = isinstance(event, c.JobPlaced) and (event.job, event.incarnation) == (job, incarnation)
    return True if is_it else None


def _all(system: RunningSystem, kind: type[E]) -> list[E]:
    return [found.event for found in system.events() if isinstance(found.event, kind)]

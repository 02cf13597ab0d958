"""Trainings that hang, diverge or idle on the local cluster: found, said, and dealt with as their users ask."""

from __future__ import annotations

import email
import os
import signal
import socket
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.header import decode_header, make_header
from pathlib import Path
from typing import Any

import pytest
from tests.harness.processes import with_command_lines
from tests.harness.system.running_system import RunningSystem

from steepest.events import cluster as c
from steepest.events.growth import FindingKind
from steepest.events.received import Received
from steepest_lab.demo.faults import webhook

TRAINS = """
import sys, time
step = 0
while True:
    step += 1
    time.sleep(0.02)
    loss = sys.argv[1] if step > 30 else f"{1 / step:.4f}"
    print(f"step {step}/100000 loss {loss}", flush=True)
"""


PATIENCE_S = 800
"""For what takes a minute on an idle machine."""


@pytest.fixture
def system(tmp_path: Path) -> Iterator[RunningSystem]:
    """One node of two cores under fair sharing, with no limits."""
    running = RunningSystem(tmp_path / "state", "--policy", "spread", "--node", "n1=0.8:1Gi", "--interval", "1s")
    running.start()
    yield running
    running.end()


def opened(kind: FindingKind, job: str) -> Callable[[Received[c.ClusterEvent]], c.FindingOpened | None]:
    """Finds the record that says so."""

    def look(found: Received[c.ClusterEvent]) -> c.FindingOpened | None:
        event = found.event
        return event if isinstance(event, c.FindingOpened) and (event.kind, event.job) == (kind, job) else None

    return look


def ended_as_failed(found: Received[c.ClusterEvent]) -> c.JobEnded | None:
    """Finds the record that says it of any job."""
    event = found.event
    return event if isinstance(event, c.JobEnded) and event.outcome is c.Outcome.FAILED else None


@pytest.mark.timeout(1_200)
def test_a_loss_that_is_not_finite_is_said_and_ends_the_job_that_asks_for_it(system: RunningSystem) -> None:
    """The one that does not is marked, and trains on; both are found within some values."""
    system.submit("fails", "python3", "-c", TRAINS, "nan", options=("--on-diverged", "fail"))
    system.submit("goes-on", "python3", "-c", TRAINS, "nan")
    for job in ("fails", "goes-on"):
        assert system.look_for(opened(FindingKind.DIVERGED, job), since=0, patience_s=PATIENCE_S)
    ended = system.look_for(ended_as_failed, since=0, patience_s=PATIENCE_S)

    assert ended is not None
    assert (ended.job, ended.reason[:9]) == ("fails", "diverged:")
    assert "diverged: its loss is not finite" in system.call("jobs").stdout
    assert "goes-on diverges" in system.call("events").stdout
    assert "it diverges" in system.call("explain", "goes-on").stdout
    system.call("cancel", "goes-on")
    assert system.await_end("goes-on").outcome is c.Outcome.CANCELLED
    assert system.breaches() == []


FAULTY = """
import socket, sys, threading, time
fault, total = sys.argv[1], 600 if sys.argv[1] == "finished" else 100000
mine, peer = socket.socketpair()
step = 0
while True:
    step += 1
    until = time.thread_time() + (0.001 if step > 1 else 0.3)
    while time.thread_time() < until:
        pass
    time.sleep(0.1)
    if step == 600 and fault == "deadlocked":
        beat = lambda: [time.sleep(1) for _ in iter(int, 1)]
        threading.Thread(target=beat, daemon=True).start()
        threading.Barrier(2).wait()
    if step == 600 and fault == "dead-link":
        mine.recv(1)
    loss = "nan" if step > 400 and fault == "diverged" else f"{1 / step:.5f}"
    print(f"step {step}/{total} loss {loss}", flush=True)
    while step == total:
        time.sleep(1)
"""

BAD_FROM = 400
"""The step after which a loss is not finite."""

HANGS = ("stopped", "deadlocked", "dead-link")
ASKED = {
    **dict.fromkeys(HANGS, ("--on-hung", "restart")),
    "diverged": ("--on-diverged", "fail"),
    "finished": ("--on-idle", "fail"),
    "healthy": ("--on-hung", "fail", "--on-diverged", "fail", "--on-idle", "fail"),
}
"""What the jobs with each fault ask for."""

KINDS = {**dict.fromkeys(HANGS, FindingKind.HUNG), "diverged": FindingKind.DIVERGED, "finished": FindingKind.IDLE}
BAD = {FindingKind.HUNG, FindingKind.DIVERGED, FindingKind.IDLE, FindingKind.LOST}


class MailSink:
    """Takes mail."""

    def __init__(self) -> None:
        self.subjects: list[str] = []

    async def handle_DATA(self, server: object, session: object, envelope: Any) -> str:  # noqa: ARG002, N802 - a hook
        """Keep its subject."""
        read = email.message_from_bytes(envelope.content)["Subject"]
        self.subjects.append(str(make_header(decode_header(read))))
        return "250 OK"


@contextmanager
def mailbox() -> Iterator[tuple[int, MailSink]]:
    """A real SMTP server, and what it takes."""
    controller = pytest.importorskip("aiosmtpd.controller", reason="make dev")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sink = MailSink()
    server = controller.Controller(sink, hostname="127.0.0.1", port=port)
    server.start()
    try:
        yield port, sink
    finally:
        server.stop()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_real_faults_are_found_within_their_bounds_and_dealt_with(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """A stopped process, a barrier that never opens, a dead link, NaN, work that is done: each found, told, acted on.

    No healthy job is touched. ``--fault-jobs 10`` runs ten jobs of each.
    """
    pytest.importorskip("apprise", reason="make dev")
    jobs = [f"{fault}-{number}" for number in range(pytestconfig.getoption("fault_jobs")) for fault in ASKED]
    targets = tmp_path / "targets.toml"
    targets.touch(mode=0o600)
    with mailbox() as (port, mails), webhook() as (settings, said):
        url = tomllib.loads(Path(settings.file).read_text())["hang"]["url"]
        mail = f"mailto://127.0.0.1:{port}?from=steepest@example.org&to=ops@example.org&mode=insecure"
        tables = [f'[{job}]\nurl = "{url}"\njobs = ["{job}"]\n' for job in jobs]
        targets.write_text(f'[ops]\nurl = "{mail}"\n' + "".join(tables))
        options = ("--policy", "spread", "--node", f"n1={0.15 * len(jobs):.2f}:4Gi", "--interval", "1s")
        system = RunningSystem(tmp_path / "state", *options, env={"STEEPEST_NOTIFY_FILE": str(targets)})
        system.start()
        try:
            for job in jobs:
                fault = job.rpartition("-")[0]
                system.submit(job, "python3", "-c", FAULTY, fault, options=("--cpu", "0.05", *ASKED[fault]))
            stop_at_their_steps([job for job in jobs if job.startswith("stopped")], system)
            for job in jobs:
                fault = job.rpartition("-")[0]
                if fault == "healthy":
                    continue
                found = system.look_for(opened(KINDS[fault], job), since=0, patience_s=900)
                assert found is not None, job
                if fault in HANGS:
                    assert found.figures["silent_ms"] <= max(60_000, found.figures["allowed_ms"]) + 10_000
                    assert system.look_for(placed_again(job), since=0, patience_s=300), job
                else:
                    assert system.await_end(job).outcome is c.Outcome.FAILED
                until(lambda job=job: any(job in one for one in said), f"a message about {job}")  # type: ignore[misc]
            records = system.events()
            for fault, kind in KINDS.items():
                delays = sorted(delay_s(records, kind, job) for job in jobs if job.startswith(fault))
                print(fault, len(delays), f"found and dealt with, after {delays[0]:.0f} to {delays[-1]:.0f} s")  # noqa: T201
            events = [one.event for one in records]
            healthy = [event for event in events if getattr(event, "job", "").startswith("healthy")]
            assert [each for each in healthy if isinstance(each, c.FindingOpened) and each.kind in BAD] == []
            assert [each for each in healthy if isinstance(each, c.ReactionPlanned | c.JobEnded)] == []
            assert any(
                "hangs" in subject or "diverges" in subject or "is idle" in subject for subject in mails.subjects
            )
            assert system.breaches() == []
        finally:
            system.end()


def delay_s(records: list[Received[c.ClusterEvent]], kind: FindingKind, job: str) -> float:
    """For how long a job had been at fault when that was found first."""
    first_bad = None
    for one in records:
        match one.event:
            case c.NodeUsage(progress=made) if any(each.job == job and (each.step or 0) > BAD_FROM for each in made):
                first_bad = first_bad or one.at_ms
            case c.FindingOpened(kind=k, job=j, figures=figures) if (k, j) == (kind, job):
                at_fault_ms = figures.get("silent_ms") if kind is FindingKind.HUNG else figures.get("unused_ms")
                return (one.at_ms - (first_bad or one.at_ms) if at_fault_ms is None else at_fault_ms) / 1_000
    raise AssertionError(job)


def stop_at_their_steps(jobs: list[str], system: RunningSystem) -> None:
    """Stop the processes of these jobs by a signal, once each has made some hundred steps."""

    def all_stepped(found: Received[c.ClusterEvent], seen: dict[str, None]) -> bool | None:
        for one in found.event.progress if isinstance(found.event, c.NodeUsage) else ():
            if (one.step or 0) > 400:
                seen[one.job] = None
        return all(job in seen for job in jobs) or None

    seen: dict[str, None] = {}
    assert system.look_for(lambda found: all_stepped(found, seen), since=0, patience_s=600)
    for process, line in with_command_lines():
        if line[-2:] == [FAULTY, "stopped"]:
            os.kill(process.pid, signal.SIGSTOP)


def placed_again(job: str) -> Callable[[Received[c.ClusterEvent]], c.JobPlaced | None]:
    """Finds the restart of a job."""

    def look(found: Received[c.ClusterEvent]) -> c.JobPlaced | None:
        event = found.event
        return event if isinstance(event, c.JobPlaced) and event.job == job and event.incarnation > 1 else None

    return look


def until(holds: Callable[[], bool], what: str) -> None:
    """Wait until it holds, a minute at most: a message is on its way."""
    news = threading.Event()
    for _ in range(600):
        if holds():
            return
        news.wait(0.1)
    pytest.fail(f"there was never {what}")

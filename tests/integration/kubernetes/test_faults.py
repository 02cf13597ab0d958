"""Trainings that hang, diverge or idle in pods: found within their bounds, shown where ``kubectl`` looks, and dealt with."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.kubernetes.moving_system import events_once_there, job_of, lab_system
from tests.integration.test_watching import (
    BAD,
    FAULTY,
    HANGS,
    KINDS,
    delay_s,
    opened,
    placed_again,
    stop_at_their_steps,
)

from steepest.events import cluster as c
from steepest.events.received import Received
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE

EACH = 3
ASKED = {
    "stopped": ("--on-hung", "restart"),
    "deadlocked": ("--on-hung", "fail"),
    "dead-link": (),
    "diverged": ("--on-diverged", "fail"),
    "finished": ("--on-idle", "suspend"),
    "healthy": ("--on-hung", "fail", "--on-diverged", "fail", "--on-idle", "fail"),
}
"""What the jobs with each fault ask for; nothing: to be told."""

SAVES = ("python3", "-m", "steepest_lab.jobs.faulty", "--fault", "idle", "--steps", "60")
"""A job that can be suspended once its work is done."""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_three_of_each_fault_are_found_shown_and_dealt_with(lab: KubernetesLab, kubeconfig: Path) -> None:
    """All at once, next to healthy jobs, which are left alone."""
    state = lab.folder.volume / f"faults-{secrets.token_hex(4)}"
    jobs = [f"{fault}-{number}" for number in range(EACH) for fault in ASKED]
    nodes = ("node-a=1.5:4GiB", "node-b=1.5:4GiB")
    with lab_system(lab, kubeconfig, state, nodes, "--policy", "spread", "--interval", "1s") as system:
        for job in jobs:
            fault = job.rpartition("-")[0]
            command = SAVES if fault == "finished" else ("python3", "-c", FAULTY, fault)
            system.submit(job, *command, options=("--cpu", "0.05", *ASKED[fault]))
        stop_at_their_steps([job for job in jobs if job.startswith("stopped")], system)
        for job in jobs:
            fault = job.rpartition("-")[0]
            if fault == "healthy":
                continue
            found = system.look_for(opened(KINDS[fault], job), since=0, patience_s=400)
            assert found is not None, job
            if fault in HANGS:
                assert found.figures["silent_ms"] <= max(60_000, found.figures["allowed_ms"]) + 20_000
            match fault:
                case "stopped":
                    assert system.look_for(placed_again(job), since=0, patience_s=200), job
                case "deadlocked" | "diverged":
                    assert system.await_end(job).outcome is c.Outcome.FAILED
                case "finished":
                    assert system.look_for(suspended(job), since=0, patience_s=200), job
                case _:
                    name, uid = job_of(system, lab, job)
                    events_once_there(lab, uid, {"FindingOpened"})
                    hung = "--for=condition=steepest.dev/Hung"
                    lab.kubectl("-n", NAMESPACE, "wait", hung, f"job/{name}", "--timeout=30s")
        records = system.events()
        for fault, kind in KINDS.items():
            delays = sorted(delay_s(records, kind, job) for job in jobs if job.startswith(fault))
            print(fault, len(delays), f"found and dealt with, after {delays[0]:.0f} to {delays[-1]:.0f} s")  # noqa: T201
        healthy = [one.event for one in records if getattr(one.event, "job", "").startswith("healthy")]
        assert [each for each in healthy if isinstance(each, c.FindingOpened) and each.kind in BAD] == []
        assert [each for each in healthy if isinstance(each, c.ReactionPlanned | c.JobEnded)] == []
        assert system.breaches() == []
    lab.kubectl("-n", NAMESPACE, "delete", "jobs", "-l", "steepest.dev/managed=true", "--wait=false")


def suspended(job: str) -> Callable[[Received[c.ClusterEvent]], c.JobSuspended | None]:
    """Finds the event that says so."""

    def look(found: Received[c.ClusterEvent]) -> c.JobSuspended | None:
        event = found.event
        return event if isinstance(event, c.JobSuspended) and event.job == job else None

    return look

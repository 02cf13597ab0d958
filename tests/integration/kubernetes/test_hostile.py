"""Hostile jobs and hostile objects beside innocent ones on real nodes: they harm only themselves.

Programs are those of ``tests/hostile/cases.py``. Objects are what a user may write into a Job that is opted in.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.system.running_system import RunningSystem
from tests.hostile.cases import TRIES, innocent
from tests.hostile.test_local import HOSTILE_S, INNOCENTS, STEP_S, losses_of
from tests.integration.kubernetes import test_users_jobs
from tests.integration.kubernetes.figures import Figures
from tests.integration.kubernetes.moving_system import events_once_there, lab_system
from tests.integration.kubernetes.opted_in import users_job

from steepest.events import cluster as c
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE

PROGRAMS = (
    *("deep-hello", "deep-reports", "deep-manifest", "pipe-reports", "zero-reports", "sparse", "long-lines"),
    *("flood", "escapes", "numbers", "surrogates", "removed-control"),
)
ENDLESS = "import os\nfor _ in range(60): os.write(1, b'x' * 1_000_000)"
"""One line of 60 MB, which never ends."""

state = test_users_jobs.state  # a fixture

ANNOTATED = "opted-in-annotated"
TOLERANT = "opted-in-tolerant"
LONG = "opted-in-long"
GARBAGE = {
    "steepest.dev/metric": "\x1b]0;title\x07" + "m" * 5_000,
    "steepest.dev/log-format": "\u202e../../etc/shadow\n" * 40,
    "steepest.dev/steps": "9" * 5_000,
    "steepest.dev/requests": '{"cpu_m":' * 10_000,
    "variable.steepest.dev/STEEPEST_RESTORE": "/etc",
}


def hostile_jobs() -> Iterator[dict[str, Any]]:
    """Jobs whose objects are odd: annotations, 10,000 tolerations, and a variable so long that no program starts with it."""
    for name in (ANNOTATED, TOLERANT, LONG):
        job = copy.deepcopy(users_job(name, opted_in=True))
        pod = job["spec"]["template"]["spec"]
        pod["containers"][0]["command"] = ["sleep", str(HOSTILE_S)]
        if name == ANNOTATED:
            job["metadata"]["annotations"] = dict(GARBAGE)
            job["spec"]["template"]["metadata"] = {"annotations": dict(GARBAGE)}
        elif name == TOLERANT:
            pod["tolerations"] = [{"key": f"k{number}", "operator": "Exists"} for number in range(10_000)]
        else:
            pod["containers"][0]["env"] = [{"name": "LONG", "value": "<" * 300_000}]
        yield job


@pytest.fixture
def system(state: Path, lab: KubernetesLab, kubeconfig: Path) -> Iterator[RunningSystem]:
    """A system that only places, with room for some at a time."""
    with lab_system(lab, kubeconfig, state, ("node-a=1:4Gi", "node-b=0.8:4Gi"), "--policy", "spread") as running:
        yield running
    jobs = (ANNOTATED, TOLERANT, LONG)
    lab.kubectl("-n", NAMESPACE, "delete", "jobs", *jobs, "--ignore-not-found", "--wait=false")
    lab.kubectl("-n", NAMESPACE, "delete", "jobs", "-l", "steepest.dev/managed=true", "--wait=false")


@pytest.mark.timeout(500)
def test_hostile_jobs_harm_only_themselves(system: RunningSystem, lab: KubernetesLab, figures: Figures) -> None:
    """Every innocent loss is on the log, every job ends, and no watch of the API server breaks."""
    for job in hostile_jobs():
        lab.kubectl("create", "-f", "-", content=job)
    half = len(PROGRAMS) // 2
    commands = {name: TRIES[name].command(HOSTILE_S) for name in PROGRAMS[:half]}
    commands |= {name: innocent(steps, STEP_S) for name, steps in INNOCENTS.items()}
    commands |= {name: TRIES[name].command(HOSTILE_S) for name in PROGRAMS[half:]}
    commands["endless"] = ("python3", "-c", ENDLESS)
    for name, command in commands.items():
        system.submit(name, *command, options=("--cpu", "0.15"))
    uids = {name: _uid(lab, name) for name in (ANNOTATED, TOLERANT, LONG)}
    (said,) = events_once_there(lab, uids[TOLERANT], {"LeftAlone"})
    jobs = [*commands, *(f"{name}.{uids[name][:8]}" for name in (ANNOTATED, LONG))]
    ends = {name: _end(system, name) for name in jobs}
    losses = asyncio.run(losses_of(system.state))
    figures.count(lost=sum(ends[name].outcome is not c.Outcome.FINISHED for name in INNOCENTS))

    assert {name: ends[name].outcome for name in INNOCENTS} == dict.fromkeys(INNOCENTS, c.Outcome.FINISHED)
    assert {name: losses.get(name) for name in INNOCENTS} == {
        name: list(range(1, steps + 1)) for name, steps in INNOCENTS.items()
    }
    for name, steps in INNOCENTS.items():
        assert system.call("logs", name).stdout.splitlines()[-1] == f"step {steps}"
    assert "too long" in said["message"]
    assert ends[f"{ANNOTATED}.{uids[ANNOTATED][:8]}"].outcome is c.Outcome.FINISHED
    assert ends[f"{LONG}.{uids[LONG][:8]}"].outcome is c.Outcome.FAILED
    assert [line for line in system.output_lines if "watch" in line] == []
    assert [each for each in system.events() if isinstance(each.event, c.NodeLost)] == []
    assert system.breaches() == []


def _end(system: RunningSystem, job: str) -> c.JobEnded:
    found = system.look_for(lambda one: one.event if _is_end(one.event, job) else None, 0, 300.0)
    assert isinstance(found, c.JobEnded), f"{job} has not ended"
    return found


def _is_end(event: c.ClusterEvent, job: str) -> bool:
    return isinstance(event, c.JobEnded) and event.job == job


def _uid(lab: KubernetesLab, name: str) -> str:
    found: str = json.loads(lab.kubectl("-n", NAMESPACE, "get", "job", name, "-o", "json"))["metadata"]["uid"]
    return found

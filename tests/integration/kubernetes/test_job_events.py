"""Events about Jobs on a real cluster: the API server takes them once, and ``kubectl describe job`` explains what happened.

The witness is kubectl with the administrator's rights; what is written is written with an installation's own.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.harness.system.running_system import RunningSystem
from tests.integration import exclusive_training
from tests.integration.kubernetes.moving_system import (
    events_about,
    events_once_there,
    finished_move,
    job_of,
    moving_system,
)

from steepest.cluster.kubernetes.api import AnswerError, KubernetesApi
from steepest.cluster.kubernetes.job_events import CONTROLLER, JobSubject, Notice, post_event, set_conditions
from steepest.cluster.kubernetes.manifest import JobSettings
from steepest.describe import sentence
from steepest.errors import RefusedError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.received import Received
from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import CLAIM, NAMESPACE

NAME = "opted-in-noted"
"""Named so that other tests that read the audit log know it."""

JOBS = ("one", "two", "three")
SETTINGS = JobSettings(
    namespace=NAMESPACE, label="noted", claim=CLAIM, below=Path("noted"), image=DEMO, user=1, most=Resources()
)
HOSTILE = '"}}\n\x1b[2J$(reboot)' + "ö" * 600


def suspended_job() -> dict[str, Any]:
    """A Job that never runs."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "job", "image": DEMO}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"suspend": True, "template": {"spec": pod}},
    }


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[KubernetesApi]:
    """The API server, with the rights that an installation is given."""
    made = KubernetesApi(kubeconfig)
    yield made
    await made.close()


@pytest.fixture
def job(lab: KubernetesLab) -> Iterator[JobSubject]:
    """A Job that nothing but the Job controller acts on."""
    yield _made(lab)
    lab.kubectl("-n", NAMESPACE, "delete", "job", NAME, "--ignore-not-found", "--wait=true")


async def test_the_same_notice_is_one_event(api: KubernetesApi, lab: KubernetesLab, job: JobSubject) -> None:
    """Also when it is written again later; another one is another Event, and kubectl shows both with the Job."""
    placed = Notice(reason="Placed", message="it is placed on node-a", at_ms=time.time_ns() // 1_000_000)
    moved = Notice(reason="NotMoved", message="node-b is away", is_warning=True, at_ms=placed.at_ms)
    for notice, now_ms in ((placed, 1), (placed, 10**12), (moved, 1)):
        await post_event(api, SETTINGS, job, notice, now_ms)

    seen = sorted((each["reason"], each["type"], each["message"]) for each in events_about(lab, job.uid))
    assert seen == [
        ("NotMoved", "Warning", "node-b is away"),
        ("Placed", "Normal", "it is placed on node-a"),
    ]
    shown = lab.kubectl("-n", NAMESPACE, "describe", "job", NAME)
    assert "it is placed on node-a" in shown
    assert "node-b is away" in shown
    selected = ("--field-selector", f"reportingController={CONTROLLER},regarding.uid={job.uid}", "-o", "name")
    assert len(lab.kubectl("-n", NAMESPACE, "get", "events.events.k8s.io", *selected).split()) == 2


async def test_a_job_that_is_made_again_has_no_events_of_the_old_one(
    api: KubernetesApi, lab: KubernetesLab, job: JobSubject
) -> None:
    """Its name is the same, its UID is not."""
    await post_event(api, SETTINGS, job, Notice(reason="Placed", message="this was the old one"), 1)
    lab.kubectl("-n", NAMESPACE, "delete", "job", NAME, "--wait=true")
    again = _made(lab)
    await post_event(api, SETTINGS, again, Notice(reason="Placed", message="this is the new one"), 1)

    shown = lab.kubectl("-n", NAMESPACE, "describe", "job", NAME)
    assert "this is the new one" in shown
    assert "this was the old one" not in shown


@pytest.mark.parametrize("at_ms", [-(2**62), 0, 2**62, None])
async def test_any_words_and_times_are_taken(
    api: KubernetesApi, lab: KubernetesLab, job: JobSubject, at_ms: int | None
) -> None:
    """A long message is cut, and is nothing but a message."""
    await post_event(api, SETTINGS, job, Notice(reason="StepFailed", message=HOSTILE, at_ms=at_ms), 10**12)

    (event,) = events_about(lab, job.uid)
    assert HOSTILE.startswith(event["message"])
    assert len(event["message"].encode()) > 1_000


async def test_a_condition_is_there_until_it_is_removed(
    api: KubernetesApi, lab: KubernetesLab, job: JobSubject
) -> None:
    """The Job controller keeps it, and its own stay; kubectl waits for it. A Job of another UID is left alone."""
    lab.kubectl("-n", NAMESPACE, "wait", "--for=condition=Suspended", f"job/{NAME}", "--timeout=60s")
    hung = Notice(reason="FindingOpened", message=HOSTILE, at_ms=10**12)
    await set_conditions(api, SETTINGS, job, {"steepest.dev/Hung": hung, "steepest.dev/Idle": None})
    lab.kubectl("-n", NAMESPACE, "wait", "--for=condition=steepest.dev/Hung", f"job/{NAME}", "--timeout=10s")
    lab.kubectl("-n", NAMESPACE, "patch", "job", NAME, "--type=merge", "-p", '{"spec": {"suspend": false}}')
    lab.kubectl("-n", NAMESPACE, "wait", "--for=condition=Suspended=false", f"job/{NAME}", "--timeout=60s")
    assert set(_conditions(lab)) >= {"Suspended", "steepest.dev/Hung"}
    with pytest.raises(AnswerError):
        await set_conditions(api, SETTINGS, JobSubject(NAME, "another"), {"steepest.dev/Hung": None})
    await set_conditions(api, SETTINGS, job, {"steepest.dev/Hung": None})
    assert "steepest.dev/Hung" not in _conditions(lab)


def _conditions(lab: KubernetesLab) -> list[str]:
    found = json.loads(lab.kubectl("-n", NAMESPACE, "get", "job", NAME, "-o", "json"))
    return [one["type"] for one in found["status"]["conditions"]]


async def test_no_event_is_written_in_another_namespace(api: KubernetesApi, job: JobSubject) -> None:
    """The right is one of the namespace of the Jobs."""
    elsewhere = msgspec.structs.replace(SETTINGS, namespace="default")
    with pytest.raises(RefusedError):
        await post_event(api, elsewhere, job, Notice(reason="Placed", message="here"), 1)


@pytest.fixture
def system(lab: KubernetesLab, kubeconfig: Path) -> Iterator[RunningSystem]:
    """A system in which all jobs start on the large node and are limited there, and one moves to the idle one."""
    state = lab.folder.volume / f"noted-{secrets.token_hex(4)}"
    with moving_system(lab, kubeconfig, state, "--policy", "specon+flowcon") as running:
        yield running
    lab.kubectl("-n", NAMESPACE, "delete", "jobs", "-l", "steepest.dev/managed=true", "--wait=false")


@pytest.mark.timeout(400)
def test_describe_explains_a_move_a_limit_and_an_end(system: RunningSystem, lab: KubernetesLab) -> None:
    """Of Steepest's own Jobs, in the words of ``steepest explain``; each thing that happened is one Event."""
    source = Path(exclusive_training.__file__).read_text()
    for name in JOBS:
        system.submit(name, "python3", "-c", source, "/steepest/checkpoints")
    moved, limited = system.await_event(finished_move), system.await_event(_limit)
    name, uid = job_of(system, lab, moved.job)
    events_once_there(lab, uid, {"PlacementPlanned", "Placed", "MovePlanned", "Moved"})
    events_once_there(lab, job_of(system, lab, limited.job)[1], {"Limited"})
    for each in JOBS:
        (system.state / "cluster" / "jobs" / each / "checkpoints" / "enough").touch()
    for each in JOBS:
        system.await_end(each)
    seen = events_once_there(lab, uid, {"Ended"})

    moves = [each.event for each in system.events() if isinstance(each.event, c.MigrationFinished)]
    shown = [event["message"] for event in seen if event["reason"] == "Moved"]
    assert {event["type"] for event in seen if event["reason"] in {"Placed", "Moved", "Ended"}} == {"Normal"}
    assert sorted(shown) == sorted(sentence(each) for each in moves if each.job == moved.job)
    assert sentence(moved) in lab.kubectl("-n", NAMESPACE, "describe", "job", name)
    assert system.breaches() == []


def _limit(found: Received[c.ClusterEvent]) -> c.LimitsApplied | None:
    return found.event if isinstance(found.event, c.LimitsApplied) else None


def _made(lab: KubernetesLab) -> JobSubject:
    made = json.loads(lab.kubectl("create", "-o", "json", "-f", "-", content=suspended_job()))
    return JobSubject(NAME, made["metadata"]["uid"])

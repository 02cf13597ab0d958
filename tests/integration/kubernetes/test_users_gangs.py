"""Objects of several pods that users make with kubectl: they start whole, give way whole, and go on where they were."""

from __future__ import annotations

import functools
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from tests.integration.kubernetes.figures import Figures
from tests.integration.kubernetes.moving_system import events_once_there, lab_system
from tests.integration.kubernetes.opted_in import (
    DEPLOY,
    changes,
    opened,
    users_job,
    users_job_set,
    wait_until_suspended,
    written,
)
from tests.integration.kubernetes.pod_processes import process_in
from tests.integration.kubernetes.test_rights import may

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.kubernetes_lab.lab import KubernetesLab
from steepest.kubernetes_lab.layout import NAMESPACE
from steepest.testing.system.running_system import RunningSystem

PODS = 3
GANG = "opted-in-gang"
"""Named so that other tests that read the audit log know it."""

PATIENCE_S = 60.0
TRAIN = ("python3", "-c", "import time; time.sleep(3600)")


@pytest.fixture
def state(lab: KubernetesLab, kubeconfig: Path, tmp_path: Path) -> Iterator[Path]:
    """A state folder on the volume, in a namespace that is open for users' Jobs."""
    del kubeconfig
    with opened(lab, tmp_path) as made:
        yield made
        lab.kubectl("-n", NAMESPACE, "delete", "job", GANG, "--ignore-not-found")


@pytest.fixture
def open_for_job_sets(lab: KubernetesLab, job_set_controller: str, state: Path) -> Iterator[Path]:
    """The same, and for JobSets."""
    if job_set_controller:
        pytest.skip(job_set_controller)
    files = [
        argument for name in ("opt-in-jobset", "rights-jobset") for argument in ("-f", str(DEPLOY / f"{name}.yaml"))
    ]
    lab.kubectl("apply", *files)
    wait_until_suspended(lab, users_job_set("probe", opted_in=True))
    yield state
    lab.kubectl("-n", NAMESPACE, "delete", "jobsets", "--all")
    lab.kubectl("delete", *files)


def giving_way(lab: KubernetesLab, kubeconfig: Path, state: Path, *options: str) -> Any:
    """A system on two nodes for two replicas each, in which urgent jobs have others suspended."""
    nodes = ("node-a=0.1:2Gi", "node-b=0.1:2Gi")
    ways = ("--policy", "none", "--queueing", "priority", "--preempt", "--min-run", "1ms")
    return lab_system(lab, kubeconfig, state, nodes, *ways, *options)


@pytest.mark.timeout(300)
def test_a_job_of_several_pods_gives_way_and_goes_on(
    lab: KubernetesLab, kubeconfig: Path, state: Path, figures: Figures
) -> None:
    """The same Job is suspended with all of its pods, and resumed at the step that its first one saved."""
    with giving_way(lab, kubeconfig, state) as system:
        gives_way_and_goes_on(system, lab, users_job(GANG, opted_in=True, pods=PODS), "Complete")
    failed = made(lab, "job", GANG)["status"].get("failed", 0)
    figures.count(status_failed=failed)

    assert failed == 0


@pytest.mark.timeout(300)
def test_a_job_set_gives_way_and_goes_on(
    lab: KubernetesLab, kubeconfig: Path, open_for_job_sets: Path, figures: Figures
) -> None:
    """So is a JobSet, through its own controller; none of its Jobs counts a failure, and another JobSet is not touched."""
    lab.kubectl("create", "-f", "-", content=users_job_set("bystander", opted_in=False))
    with giving_way(lab, kubeconfig, open_for_job_sets, "--kind", "JobSet") as system:
        gives_way_and_goes_on(system, lab, users_job_set(GANG, opted_in=True), "Completed")
    jobs = listed(lab, "jobs", f"jobset.sigs.k8s.io/jobset-name={GANG}")
    failed = sum(each["status"].get("failed", 0) for each in jobs)
    untouched = [name for name in written(lab) if name.startswith("bystander")]
    figures.count(status_failed=failed, untouched_writes=len(untouched))

    assert sorted(each["metadata"]["name"] for each in jobs) == [f"{GANG}-leader-0", f"{GANG}-worker-0"]
    assert (failed, untouched) == (0, [])
    assert not made(lab, "jobset", "bystander")["spec"].get("suspend", False)
    assert len(listed(lab, "pods", "jobset.sigs.k8s.io/jobset-name=bystander")) == PODS


@pytest.mark.timeout(300)
def test_a_gang_of_which_a_pod_fails_is_started_again_whole(lab: KubernetesLab, kubeconfig: Path, state: Path) -> None:
    """The others are stopped by a suspension, which counts nothing: Kubernetes and Steepest both know of one failure."""
    asked = users_job(GANG, opted_in=True, pods=2)
    asked["spec"]["backoffLimit"] = 2
    with giving_way(lab, kubeconfig, state) as system:
        lab.kubectl("create", "-f", "-", content=asked)
        job = job_of(made(lab, "job", GANG))
        folder = system.state / "cluster" / "jobs" / job
        system.await_event(functools.partial(placed, job=job, incarnation=1))
        eventually((folder / "0" / "1" / "control" / "reports.jsonl").exists, "its first replica makes steps")
        (second,) = (pod for pod in pods_of(lab, job) if pod["metadata"]["labels"]["steepest.dev/replica"] == "1")
        os.kill(process_in(second["metadata"]["uid"], "python3 -c", within_s=PATIENCE_S), signal.SIGKILL)
        system.await_event(functools.partial(placed, job=job, incarnation=2))
        eventually((folder / "0" / "2" / "control" / "hello.json").exists, "its first replica goes on")
        (folder / "checkpoints" / "enough").touch()
        ended = system.await_end(job)
        lab.kubectl("-n", NAMESPACE, "wait", "--for=condition=Complete", f"job/{GANG}", "--timeout=60s")

        assert ended.outcome is c.Outcome.FINISHED
        assert made(lab, "job", GANG)["status"]["failed"] == 1
        assert list(folder.glob("checkpoints/*.twice")) == []
        assert system.breaches() == []


@pytest.mark.timeout(300)
def test_a_job_set_that_cannot_be_scheduled_says_why_and_one_made_again_is_new(
    lab: KubernetesLab, kubeconfig: Path, open_for_job_sets: Path
) -> None:
    """It stays suspended; what replaces it runs, and is cancelled when it is deleted, with another job in its place."""
    with giving_way(lab, kubeconfig, open_for_job_sets, "--kind", "JobSet") as system:
        restarted = users_job_set(GANG, opted_in=True, failurePolicy={"maxRestarts": 3})
        lab.kubectl("create", "-f", "-", content=restarted)
        left = made(lab, "jobset", GANG)
        (said,) = events_once_there(lab, left["metadata"]["uid"], {"LeftAlone"}, kind="JobSet")
        assert "set failurePolicy.maxRestarts to 0" in said["message"]
        assert left["spec"]["suspend"] is True
        assert system.ask("jobs") == []
        lab.kubectl("-n", NAMESPACE, "delete", "jobset", GANG)

        names = []
        for _ in range(2):
            lab.kubectl("create", "-f", "-", content=users_job_set(GANG, opted_in=True))
            names.append(job_of(made(lab, "jobset", GANG)))
            system.await_event(functools.partial(placed, job=names[-1], incarnation=1))
            lab.kubectl("-n", NAMESPACE, "delete", "jobset", GANG)
            assert system.await_end(names[-1]).outcome is c.Outcome.CANCELLED
        assert names[0] != names[1]
        assert system.breaches() == []


def test_rights_on_job_sets_are_those_that_are_needed(
    lab: KubernetesLab, kubeconfig: Path, open_for_job_sets: Path, figures: Figures
) -> None:
    """To see and to change them in the namespace; they are made and removed by their users alone."""
    del open_for_job_sets
    verbs = ("get", "list", "watch", "create", "patch", "update", "delete", "deletecollection")
    allowed = {verb for verb in verbs if may(lab, kubeconfig, verb, "jobsets.jobset.x-k8s.io", NAMESPACE)}
    away = [verb for verb in verbs if may(lab, kubeconfig, verb, "jobsets.jobset.x-k8s.io", "default")]
    excess = allowed - {"list", "watch", "patch"}
    figures.count(rbac_excess=len(excess) + len(away))

    assert (allowed, away) == ({"list", "watch", "patch"}, [])


def gives_way_and_goes_on(system: RunningSystem, lab: KubernetesLab, asked: dict[str, Any], over: str) -> None:
    """An object of a user runs with all of its pods, is suspended for an urgent job, and finishes after that."""
    kind, earlier = asked["kind"].lower(), len(changes(lab))
    lab.kubectl("create", "-f", "-", content=asked)
    before = made(lab, kind, GANG)
    job = job_of(before)
    folder = system.state / "cluster" / "jobs" / job
    system.await_event(functools.partial(placed, job=job, incarnation=1))
    began = pods_of(lab, job)
    eventually((folder / "0" / "1" / "control" / "reports.jsonl").exists, "its first replica makes steps")

    system.submit("urgent", *TRAIN, options=("--cpu", "0.1", "--priority", "urgent"))
    system.await_event(functools.partial(suspended, job=job))
    system.await_event(functools.partial(placed, job="urgent", incarnation=1))
    assert made(lab, kind, GANG)["spec"]["suspend"] is True
    assert pods_of(lab, job) == []
    saved = max(json.loads(path.read_text())["step"] for path in folder.glob("checkpoints/*/manifest.json"))
    system.call("cancel", "urgent")
    system.await_event(functools.partial(placed, job=job, incarnation=2))
    eventually((folder / "0" / "2" / "control" / "hello.json").exists, "its first replica goes on")
    hello = json.loads((folder / "0" / "2" / "control" / "hello.json").read_text())
    again = pods_of(lab, job)
    (folder / "checkpoints" / "enough").touch()
    ended = system.await_end(job)
    lab.kubectl("-n", NAMESPACE, "wait", f"--for=condition={over}", f"{kind}/{GANG}", "--timeout=60s")

    done = [one for one in changes(lab)[earlier:] if one["responseStatus"]["code"] == HTTPStatus.OK]
    of_it = [one for one in done if one["objectRef"].get("name") == GANG]
    of_pods = [
        one for one in done if one["objectRef"].get("name") in {each["metadata"]["name"] for each in began + again}
    ]

    assert ended.outcome is c.Outcome.FINISHED
    assert len(of_it) == len(("marked", "resumed", "suspended", "resumed"))
    assert [one["verb"] for one in of_pods] == ["patch"] * 2 * PODS
    assert hello["restored_step"] == saved
    assert made(lab, kind, GANG)["metadata"]["uid"] == before["metadata"]["uid"]
    for pods in (began, again):
        assert {pod["metadata"]["labels"]["steepest.dev/replica"] for pod in pods} == {"0", "1", "2"}
        assert {pod["spec"]["nodeName"] for pod in pods} == {"node-a", "node-b"}
    assert list(folder.glob("checkpoints/*.twice")) == []
    assert {path.name for path in folder.glob("checkpoints/*.lock")} == {f"{job}.{rank}.lock" for rank in range(PODS)}
    assert system.breaches() == []
    events_once_there(lab, before["metadata"]["uid"], {"Placed", "Suspended", "Ended"}, kind=asked["kind"])


def placed(found: Received[c.ClusterEvent], job: str, incarnation: int) -> bool | None:
    """Whether this incarnation of a job has its places."""
    event = found.event
    return (isinstance(event, c.JobPlaced) and (event.job, event.incarnation) == (job, incarnation)) or None


def suspended(found: Received[c.ClusterEvent], job: str) -> bool | None:
    """Whether a job was suspended."""
    return (isinstance(found.event, c.JobSuspended) and found.event.job == job) or None


def job_of(found: dict[str, Any]) -> str:
    """The name of an object as a job."""
    return f"{found['metadata']['name']}.{found['metadata']['uid'][:8]}"


def made(lab: KubernetesLab, kind: str, name: str) -> dict[str, Any]:
    """An object as the API server has it."""
    found: dict[str, Any] = json.loads(lab.kubectl("-n", NAMESPACE, "get", kind, name, "-o", "json"))
    return found


def listed(lab: KubernetesLab, kind: str, selector: str) -> list[dict[str, Any]]:
    """Objects by their labels."""
    listing = json.loads(lab.kubectl("-n", NAMESPACE, "get", kind, "-l", selector, "-o", "json"))
    return list(listing["items"])


def pods_of(lab: KubernetesLab, job: str) -> list[dict[str, Any]]:
    """The pods of a job that have not ended."""
    mine = [each for each in listed(lab, "pods", "steepest.dev/managed=true") if of_job(each) == job]
    return [pod for pod in mine if pod["status"]["phase"] in {"Pending", "Running"}]


def of_job(pod: dict[str, Any]) -> str:
    """The job of a pod that has got its place."""
    annotations: dict[str, str] = pod["metadata"].get("annotations", {})
    return annotations.get("variable.steepest.dev/STEEPEST_JOB", "")


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait for something that no event announces."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"not in {PATIENCE_S:g} s: {what}"
        time.sleep(0.1)

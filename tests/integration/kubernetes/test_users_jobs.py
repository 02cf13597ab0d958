"""Jobs that users make with kubectl: the server gates those that are opted in, and Steepest places and moves them.

The witnesses are the API server's objects and audit log, and the files on the volume.
"""

from __future__ import annotations

import functools
import json
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.harness.system.running_system import RunningSystem
from tests.integration.kubernetes.figures import Figures
from tests.integration.kubernetes.move_parts import own_parts_ms
from tests.integration.kubernetes.moving_system import events_once_there, finished_move, lab_system, moving_system
from tests.integration.kubernetes.opted_in import opened, template, users_job, written
from tests.integration.kubernetes.users_gangs import eventually, placed, tainted

from steepest.cluster.kubernetes.steps.launch import NO_ROOM_S
from steepest.errors import ClusterError
from steepest.events import cluster as c
from steepest.events.received import Received
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE

USER = f"system:serviceaccount:{NAMESPACE}:default"
JOBS = ("opted-in-mine", "opted-in-hers", "opted-in-his")
"""Named so that other tests that read the audit log know them."""


@pytest.fixture
def state(lab: KubernetesLab, kubeconfig: Path, tmp_path: Path) -> Iterator[Path]:
    """A state folder on the volume, in a namespace that is open for users' Jobs."""
    del kubeconfig
    with opened(lab, tmp_path) as made:
        yield made
        lab.kubectl("-n", NAMESPACE, "delete", "jobs", *JOBS, "bystander", "--ignore-not-found", "--wait=false")


@pytest.fixture
def system(state: Path, lab: KubernetesLab, kubeconfig: Path) -> Iterator[RunningSystem]:
    """A system in which all jobs start on the large node, converge soon, and so move to the idle one."""
    with moving_system(lab, kubeconfig, state) as running:
        yield running


@pytest.mark.timeout(400)
def test_users_jobs_are_placed_and_moved_and_others_are_not_touched(
    system: RunningSystem, lab: KubernetesLab, figures: Figures
) -> None:
    """The same Job is resumed on the other node, from its checkpoint, and counts no failure; a Job made again is new."""
    lab.kubectl("create", "-f", "-", content=users_job("bystander", opted_in=False))
    for name in JOBS:
        lab.kubectl("create", "-f", "-", content=users_job(name, opted_in=True))
    uids = {name: _job(lab, name)["metadata"]["uid"] for name in JOBS}
    moved = system.await_event(finished_move)
    figures.move_ms.append(moved.took_ms)
    figures.own_ms.append(own_parts_ms(system, lab, moved))
    whose = moved.job.rpartition(".")[0]
    pod = _pods(lab, whose)[-1]
    folder = system.state / "cluster" / "jobs" / moved.job

    assert moved.job == f"{whose}.{uids[whose][:8]}"
    assert (moved.steps_lost, moved.target, pod["spec"]["nodeName"]) == (0, "node-b", "node-b")
    hello = json.loads((folder / "0" / "2" / "control" / "hello.json").read_text())
    saved = {json.loads(path.read_text())["step"] for path in folder.glob("checkpoints/*/manifest.json")}
    assert hello["restored_step"] in saved

    gone = next(name for name in JOBS if name != whose)
    lab.kubectl("-n", NAMESPACE, "delete", "job", gone, "--wait=true")
    assert system.await_end(f"{gone}.{uids[gone][:8]}").outcome is c.Outcome.CANCELLED
    lab.kubectl("create", "-f", "-", content=users_job(gone, opted_in=True))
    uids[gone] = _job(lab, gone)["metadata"]["uid"]
    system.await_event(lambda found: _placed(found, f"{gone}.{uids[gone][:8]}"))
    for name in JOBS:
        (system.state / "cluster" / "jobs" / f"{name}.{uids[name][:8]}" / "checkpoints" / "enough").touch()
    ends = {name: system.await_end(f"{name}.{uids[name][:8]}").outcome for name in JOBS}
    for name in JOBS:
        lab.kubectl("-n", NAMESPACE, "wait", "--for=condition=Complete", f"job/{name}", "--timeout=60s")

    assert ends == dict.fromkeys(JOBS, c.Outcome.FINISHED)
    jobs = {name: _job(lab, name) for name in JOBS}
    assert {name: job["metadata"]["uid"] for name, job in jobs.items()} == uids
    failed = sum(job["status"].get("failed", 0) for job in jobs.values())
    figures.count(status_failed=failed)
    assert failed == 0
    bystander = _job(lab, "bystander")
    assert "suspend" not in bystander["spec"] or bystander["spec"]["suspend"] is False
    assert "labels" not in bystander["metadata"] or "steepest.dev/schedule" not in bystander["metadata"]["labels"]
    untouched = [name for name in written(lab) if name.startswith("bystander")]
    figures.count(untouched_writes=len(untouched))
    assert untouched == []
    assert system.breaches() == []
    events_once_there(lab, uids[whose], {"Placed", "MovePlanned", "Moved", "Ended"})
    assert "moved to node-b" in lab.kubectl("-n", NAMESPACE, "describe", "job", whose)


TEAM = "test.steepest.dev/team"
"""A taint and a label of the second node."""


@pytest.fixture
def placing(state: Path, lab: KubernetesLab, kubeconfig: Path) -> Iterator[RunningSystem]:
    """A system that only places. The second node, where all jobs would go, is for those that tolerate its taint."""
    with lab_system(lab, kubeconfig, state, ("node-a=0.2:4Gi", "node-b=1:4Gi"), "--policy", "spread") as running:
        position = len(running.events())
        lab.kubectl("taint", "node", "node-b", f"{TEAM}=us:NoSchedule")
        lab.kubectl("label", "node", "node-b", f"{TEAM}=us")
        running.await_event(tainted, position)
        yield running
        lab.kubectl("taint", "node", "node-b", f"{TEAM}-")
        lab.kubectl("label", "nodes", "--all", f"{TEAM}-")


@pytest.mark.timeout(300)
def test_jobs_run_where_their_pods_allow(placing: RunningSystem, lab: KubernetesLab, figures: Figures) -> None:
    """One tolerates the taint, one does not, and one requires a label that no node has: it waits until one has it.

    The one that says nothing of nodes requests nothing either.
    """
    tolerant, plain, choosy = (users_job(name, opted_in=True) for name in JOBS)
    del plain["spec"]["template"]["spec"]["containers"][0]["resources"]
    tolerant["spec"]["template"]["spec"] |= {
        "tolerations": [{"key": TEAM, "operator": "Equal", "value": "us", "effect": "NoSchedule"}],
        "nodeSelector": {TEAM: "us"},
    }
    not_us = {"matchExpressions": [{"key": TEAM, "operator": "In", "values": ["them", "others"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [not_us]}}
    choosy["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": required}
    began = time.monotonic()
    for each in (choosy, tolerant, plain):
        lab.kubectl("create", "-f", "-", content=each)
    uids = {name: _job(lab, name)["metadata"]["uid"] for name in JOBS}
    jobs = {name: f"{name}.{uids[name][:8]}" for name in JOBS}
    for name in JOBS[:2]:
        placing.await_event(functools.partial(_placed, job=jobs[name]))
    explained = placing.ask("explain", jobs[JOBS[2]])["now"]
    waiting = placing.job(jobs[JOBS[2]])

    assert time.monotonic() - began < NO_ROOM_S * len(JOBS), "a start was refused for want of a node"
    assert [_pods(lab, name)[0]["spec"]["nodeName"] for name in JOBS[:2]] == ["node-b", "node-a"]
    assert "it may not run on any of the 2 nodes that take jobs" in explained
    assert _job(lab, JOBS[2])["spec"]["suspend"] is True
    assert (waiting["phase"], waiting["waits_for"]) == ("waiting", "nodes")
    lab.kubectl("label", "node", "node-a", f"{TEAM}=them")
    placing.await_event(functools.partial(_placed, job=jobs[JOBS[2]]))
    assert _pods(lab, JOBS[2])[0]["spec"]["nodeName"] == "node-a"
    for job in jobs.values():
        (placing.state / "cluster" / "jobs" / job / "checkpoints" / "enough").touch()
    ends = {name: placing.await_end(job).outcome for name, job in jobs.items()}
    failed = sum(_job(lab, name)["status"].get("failed", 0) for name in JOBS)
    figures.count(status_failed=failed)
    refused = [one.event for one in placing.events() if isinstance(one.event, c.StepFailed)]
    asked = {one.event.job: one.event.spec for one in placing.events() if isinstance(one.event, c.JobSubmitted)}

    assert ends == dict.fromkeys(JOBS, c.Outcome.FINISHED)
    assert refused == []
    assert [asked[jobs[name]].requests.cpu_m for name in JOBS] == [50, 1, 50]
    assert placing.breaches() == []


@pytest.mark.timeout(200)
def test_a_job_that_cannot_be_scheduled_says_why(system: RunningSystem, lab: KubernetesLab) -> None:
    """It stays suspended, and an Event about it says what its user can change."""
    del system
    job = users_job(JOBS[0], opted_in=True)
    job["spec"] |= {"parallelism": 2, "completions": 2}
    lab.kubectl("create", "-f", "-", content=job)

    (said,) = events_once_there(lab, _job(lab, JOBS[0])["metadata"]["uid"], {"LeftAlone"})
    assert "set completionMode to Indexed" in said["message"]
    assert _job(lab, JOBS[0])["spec"]["suspend"] is True


@pytest.mark.timeout(200)
def test_only_steepest_drops_the_gate(lab: KubernetesLab, state: Path) -> None:
    """A user who may edit everything in the namespace is refused, also after having removed the labels."""
    del state
    lab.kubectl("create", "-f", "-", content=users_job(JOBS[0], opted_in=True))
    binding = f"edit-{secrets.token_hex(4)}"
    account = f"--serviceaccount={NAMESPACE}:default"
    lab.kubectl("-n", NAMESPACE, "create", "rolebinding", binding, "--clusterrole=edit", account)
    try:
        lab.kubectl("-n", NAMESPACE, "patch", "job", JOBS[0], "-p", '{"spec": {"suspend": false}}')
        lab.kubectl("-n", NAMESPACE, "wait", "--for=create", "pod", "-l", f"job-name={JOBS[0]}", "--timeout=30s")
        pod = _pods(lab, JOBS[0])[0]["metadata"]["name"]
        user = ("-n", NAMESPACE, f"--as={USER}", "patch", "pod", pod, "--type=json", "-p")
        drop = '[{"op": "remove", "path": "/spec/schedulingGates"}]'
        eventually(lambda: _is_refused(lab, *user, drop), "this policy holds, later than the one that gates")
        with pytest.raises(ClusterError, match="only Steepest drops the gate"):
            lab.kubectl(*user, drop)
        lab.kubectl(*user, '[{"op": "remove", "path": "/metadata/labels"}]')
        with pytest.raises(ClusterError, match="only Steepest drops the gate"):
            lab.kubectl(*user, drop)
    finally:
        lab.kubectl("-n", NAMESPACE, "delete", "rolebinding", binding)
        lab.kubectl("-n", NAMESPACE, "delete", "job", JOBS[0], "--wait=false")


def _is_refused(lab: KubernetesLab, *order: str) -> bool:
    try:
        lab.kubectl(*order, "--dry-run=server")
    except ClusterError as error:
        return "only Steepest drops the gate" in str(error)
    return False


def _placed(found: Received[c.ClusterEvent], job: str) -> bool | None:
    return (isinstance(found.event, c.ReplicaStarted) and found.event.job == job) or None


def _job(lab: KubernetesLab, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lab.kubectl("-n", NAMESPACE, "get", "job", name, "-o", "json"))
    return found


def _pods(lab: KubernetesLab, job: str) -> list[dict[str, Any]]:
    """The pods of a Job that have not ended."""
    found = json.loads(lab.kubectl("-n", NAMESPACE, "get", "pods", "-l", f"job-name={job}", "-o", "json"))["items"]
    return [pod for pod in found if pod["status"]["phase"] in {"Pending", "Running"}]


IGNORED = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}


@pytest.mark.timeout(300)
def test_an_evicted_pod_fails_a_job_only_where_kubernetes_says_so(
    state: Path, lab: KubernetesLab, kubeconfig: Path
) -> None:
    """By its podFailurePolicy a Job goes on; another one is over for Kubernetes itself, and has failed here too."""
    mine, hers = "opted-in-mine", "opted-in-hers"
    with lab_system(lab, kubeconfig, state, ("node-a=0.3:4Gi", "node-b=0.3:4Gi"), "--policy", "spread") as system:
        jobs = {name: _evicted(system, lab, name, policy) for name, policy in {mine: IGNORED, hers: None}.items()}
        failed = system.await_end(jobs[hers])
        system.await_event(functools.partial(placed, job=jobs[mine], incarnation=2))
        retries = [one.event for one in system.events() if isinstance(one.event, c.RetryPlanned)]
        system.call("cancel", jobs[mine])
        eventually(lambda: _ended(lab, mine).startswith("cancelled "), "the object says so itself")

        assert failed.outcome is c.Outcome.FAILED
        assert "is over" in failed.reason
        assert {retry.charged for retry in retries} == {False}
        assert system.breaches() == []


def _evicted(system: RunningSystem, lab: KubernetesLab, name: str, policy: object) -> str:
    """The job of a user's Job whose pod runs, and is evicted."""
    asked = users_job(name, opted_in=True)
    asked["spec"] |= {"template": template(["sleep", "3600"]), **({"podFailurePolicy": policy} if policy else {})}
    lab.kubectl("create", "-f", "-", content=asked)
    job = f"{name}.{_job(lab, name)['metadata']['uid'][:8]}"
    system.await_event(functools.partial(placed, job=job, incarnation=1))
    eventually(lambda: [each["status"]["phase"] for each in _pods(lab, name)] == ["Running"], "it runs")
    _evict(lab, _pods(lab, name)[-1]["metadata"]["name"])
    return job


def _ended(lab: KubernetesLab, name: str) -> str:
    return str(_job(lab, name)["metadata"].get("annotations", {}).get("steepest.dev/ended", ""))


def _evict(lab: KubernetesLab, pod: str) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
    lab.kubectl("create", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction", "-f", "-", content=eviction)

"""Objects of several pods that users make with kubectl: they start whole, give way whole, and go on where they were."""

from __future__ import annotations

import copy
import functools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.kubernetes.figures import Figures
from tests.integration.kubernetes.moving_system import events_once_there, lab_system
from tests.integration.kubernetes.opted_in import (
    DEPLOY,
    opened_for,
    users_job,
    users_job_set,
    written,
)
from tests.integration.kubernetes.pod_processes import process_in
from tests.integration.kubernetes.test_rights import may
from tests.integration.kubernetes.users_gangs import (
    GANG,
    MOVING,
    PATIENCE_S,
    PODS,
    admitted,
    eventually,
    gives_way_and_goes_on,
    giving_way,
    job_of,
    listed,
    made,
    placed,
    pods_of,
    tainted,
)

from steepest.events import cluster as c
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE


@pytest.fixture
def open_for_job_sets(lab: KubernetesLab, job_set_controller: str, open_state: Path) -> Iterator[Path]:
    """The same, and for JobSets."""
    if job_set_controller:
        pytest.skip(job_set_controller)
    files = (DEPLOY / "opt-in-jobset.yaml", DEPLOY / "rights-jobset.yaml")
    with opened_for(lab, "jobsets", users_job_set("probe", opted_in=True), *files):
        yield open_state


@pytest.mark.timeout(300)
def test_a_job_of_several_pods_gives_way_and_goes_on(
    lab: KubernetesLab, kubeconfig: Path, open_state: Path, figures: Figures
) -> None:
    """The same Job is suspended with all of its pods, and resumed at the step that its first one saved."""
    with giving_way(lab, kubeconfig, open_state) as system:
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
def test_a_gang_of_which_a_pod_fails_is_started_again_whole(
    lab: KubernetesLab, kubeconfig: Path, open_state: Path
) -> None:
    """The others are stopped by a suspension, which counts nothing: Kubernetes and Steepest both know of one failure."""
    asked = users_job(GANG, opted_in=True, pods=2)
    asked["spec"]["backoffLimit"] = 2
    with giving_way(lab, kubeconfig, open_state) as system:
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


TEAM = "test.steepest.dev/team"
"""A taint and a label of the second node."""


@pytest.mark.timeout(300)
def test_a_gang_runs_where_its_pods_allow(
    lab: KubernetesLab, kubeconfig: Path, open_for_job_sets: Path, figures: Figures
) -> None:
    """All pods of a Job and of a JobSet start on the tainted node; a JobSet whose templates differ stays suspended."""
    choosing = {
        "tolerations": [{"key": TEAM, "operator": "Equal", "value": "us", "effect": "NoSchedule"}],
        "nodeSelector": {TEAM: "us"},
    }
    job, job_set = users_job(GANG, opted_in=True, pods=PODS), users_job_set(MOVING[0], opted_in=True)
    job["spec"]["template"]["spec"] |= choosing
    for role in job_set["spec"]["replicatedJobs"]:
        role["template"]["spec"]["template"]["spec"] |= choosing
    divided = users_job_set(MOVING[1], opted_in=True)
    leader, _ = divided["spec"]["replicatedJobs"]
    leader["template"]["spec"]["template"] = copy.deepcopy(leader["template"]["spec"]["template"])
    leader["template"]["spec"]["template"]["spec"] |= choosing
    nodes = ("node-a=1:4Gi", "node-b=1:4Gi")
    with lab_system(lab, kubeconfig, open_for_job_sets, nodes, "--policy", "spread", "--kind", "JobSet") as system:
        position = len(system.events())
        lab.kubectl("taint", "node", "node-b", f"{TEAM}=us:NoSchedule")
        lab.kubectl("create", "-f", "-", content=job)
        waits = job_of(made(lab, "job", GANG))
        try:
            system.await_event(tainted, position)
            system.await_event(functools.partial(admitted, job=waits))
            eventually(lambda: "may not run on any" in system.ask("explain", waits)["now"], "it says what it waits for")
            lab.kubectl("label", "node", "node-b", f"{TEAM}=us")
            for each in (job_set, divided):
                lab.kubectl("create", "-f", "-", content=each)
            jobs = (waits, job_of(made(lab, "jobset", MOVING[0])))
            for name in jobs:
                system.await_event(functools.partial(placed, job=name, incarnation=1))
            left = made(lab, "jobset", MOVING[1])
            (said,) = events_once_there(lab, left["metadata"]["uid"], {"LeftAlone"}, kind="JobSet")
            pods = {name: pods_of(lab, name) for name in jobs}
            for name in jobs:
                (system.state / "cluster" / "jobs" / name / "checkpoints" / "enough").touch()
            ends = [system.await_end(name).outcome for name in jobs]
        finally:
            lab.kubectl("taint", "node", "node-b", f"{TEAM}-")
            lab.kubectl("label", "nodes", "--all", f"{TEAM}-")
        failed = made(lab, "job", GANG)["status"].get("failed", 0)
        figures.count(status_failed=failed)
        refused = [one.event for one in system.events() if isinstance(one.event, c.StepFailed)]

        assert [[pod["spec"]["nodeName"] for pod in pods[name]] for name in jobs] == [["node-b"] * PODS] * 2
        assert "templates differ in the nodes that they may run on" in said["message"]
        assert left["spec"]["suspend"] is True
        assert (ends, refused, failed) == ([c.Outcome.FINISHED] * 2, [], 0)
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

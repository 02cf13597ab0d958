"""Steepest and Kueue in one namespace: each has the Jobs that are labelled for it, and one with both labels is Kueue's."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.kubernetes.moving_system import events_once_there
from tests.integration.kubernetes.opted_in import changes, template, users_job
from tests.integration.kubernetes.users_gangs import eventually, giving_way, job_of, listed, made, placed, pods_of

from steepest.kubernetes_lab.kueue import KueueController
from steepest.kubernetes_lab.lab import KubernetesLab
from steepest.kubernetes_lab.layout import NAMESPACE

API = "kueue.x-k8s.io/v1beta2"
QUEUE = "team"
QUOTA = "200m"


@pytest.fixture(scope="session")
def kueue(lab: KubernetesLab) -> Iterator[None]:
    """The real one, with a queue for a fifth of a CPU."""
    controller = KueueController()
    if why := controller.missing(lab.folder):
        pytest.skip(why)
    controller.start(lab)
    resources = [{"name": "cpu", "nominalQuota": QUOTA}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": resources}]}]
    for kind, name, spec in (
        ("ResourceFlavor", "any", {}),
        ("ClusterQueue", QUEUE, {"namespaceSelector": {}, "resourceGroups": groups}),
        ("LocalQueue", QUEUE, {"clusterQueue": QUEUE}),
    ):
        metadata = {"name": name, **({"namespace": NAMESPACE} if kind == "LocalQueue" else {})}
        lab.kubectl("apply", "-f", "-", content={"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec})
    yield
    controller.stop(lab)


@pytest.fixture
def queues(lab: KubernetesLab, kueue: None, open_state: Path) -> Iterator[Path]:
    """A state folder on the volume; at the end no Job is left, and nothing that Kueue has made of one."""
    del kueue
    yield open_state
    lab.kubectl("-n", NAMESPACE, "delete", "jobs", "--all")
    eventually(lambda: not workloads(lab), "Kueue's part of them is gone")


def queued(name: str, *, opted_in: bool, cpu: str = "50m") -> dict[str, Any]:
    """A Job in Kueue's queue, as its user writes it."""
    asked = users_job(name, opted_in=opted_in)
    asked["metadata"]["labels"] = {**asked["metadata"]["labels"], "kueue.x-k8s.io/queue-name": QUEUE}
    asked["spec"]["template"] = template(["sleep", "3600"])
    asked["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return asked


@pytest.mark.timeout(300)
def test_each_has_its_own_jobs(lab: KubernetesLab, kubeconfig: Path, queues: Path) -> None:
    """Kueue makes no Workload of an opted-in Job, and Steepest writes to none of Kueue's, while both run."""
    earlier = len(by_kueue(lab))
    with giving_way(lab, kubeconfig, queues) as system:
        lab.kubectl("create", "-f", "-", content=users_job("ours", opted_in=True))
        lab.kubectl("create", "-f", "-", content=queued("theirs", opted_in=False))
        ours = job_of(made(lab, "job", "ours"))
        system.await_event(functools.partial(placed, job=ours, incarnation=1))
        eventually(lambda: is_admitted(lab, "theirs"), "Kueue admits its Job")
        eventually(lambda: phases(lab, "theirs") == ["Running"], "which then runs")
        eventually(lambda: [pod["status"]["phase"] for pod in pods_of(lab, ours)] == ["Running"], "ours runs too")

        assert owners_of_workloads(lab) == ["theirs"]
        assert not [name for name in by_kueue(lab)[earlier:] if name == "ours"]
        assert not [name for name in by_steepest(lab) if name.startswith("theirs")]
        assert [each["job"] for each in system.ask("jobs")] == [ours]
        assert system.breaches() == []


@pytest.mark.timeout(300)
def test_a_job_with_both_labels_is_kueues_and_its_user_is_told(
    lab: KubernetesLab, kubeconfig: Path, queues: Path
) -> None:
    """Its pods have no gate, so it runs once Kueue has admitted it; Steepest writes an Event about it, and nothing else."""
    with giving_way(lab, kubeconfig, queues) as system:
        lab.kubectl("create", "-f", "-", content=queued("both", opted_in=True))
        found = made(lab, "job", "both")
        (said,) = events_once_there(lab, found["metadata"]["uid"], {"LeftAlone"})
        eventually(lambda: phases(lab, "both") == ["Running"], "it runs as Kueue has it")

        assert "without the label kueue.x-k8s.io/queue-name, or without steepest.dev/schedule" in said["message"]
        assert is_admitted(lab, "both")
        assert not [name for name in by_steepest(lab) if name.startswith("both")]
        assert system.ask("jobs") == []


def test_kueue_alone_says_whether_its_jobs_are_suspended(lab: KubernetesLab, queues: Path) -> None:
    """It resumes what it has admitted and suspends what it has not, also against a change of another party."""
    del queues
    lab.kubectl("create", "-f", "-", content=queued("admitted", opted_in=False))
    lab.kubectl("create", "-f", "-", content=queued("waits", opted_in=False, cpu="190m"))
    eventually(lambda: phases(lab, "admitted") == ["Running"], "the first one runs")
    eventually(lambda: owners_of_workloads(lab) == ["admitted", "waits"], "the second one waits for quota")
    earlier = len(by_kueue(lab))
    for name, suspended in (("admitted", True), ("waits", False)):
        lab.kubectl("-n", NAMESPACE, "patch", "job", name, "-p", json.dumps({"spec": {"suspend": suspended}}))

    eventually(lambda: {"admitted", "waits"} <= set(by_kueue(lab)[earlier:]), "Kueue writes to both")
    eventually(lambda: made(lab, "job", "admitted")["spec"]["suspend"] is False, "the first one is resumed")
    eventually(lambda: made(lab, "job", "waits")["spec"]["suspend"] is True, "the second one is suspended")
    assert is_admitted(lab, "admitted")
    assert not is_admitted(lab, "waits")


def workloads(lab: KubernetesLab) -> list[dict[str, Any]]:
    """What Kueue has made of Jobs."""
    return list(json.loads(lab.kubectl("-n", NAMESPACE, "get", "workloads.kueue.x-k8s.io", "-o", "json"))["items"])


def owners_of_workloads(lab: KubernetesLab) -> list[str]:
    """The Jobs of which Kueue has made something."""
    return sorted(owner["name"] for each in workloads(lab) for owner in each["metadata"]["ownerReferences"])


def is_admitted(lab: KubernetesLab, job: str) -> bool:
    """Whether Kueue has admitted a Job: its Workload's condition ``Admitted`` says so."""
    return any(
        condition["type"] == "Admitted" and condition["status"] == "True"
        for each in workloads(lab)
        if job in {owner["name"] for owner in each["metadata"]["ownerReferences"]}
        for condition in each.get("status", {}).get("conditions", [])
    )


def phases(lab: KubernetesLab, job: str) -> list[str]:
    """The phases of a Job's pods that do not end."""
    found = listed(lab, "pods", f"job-name={job}")
    return [pod["status"]["phase"] for pod in found if "deletionTimestamp" not in pod["metadata"]]


def by_steepest(lab: KubernetesLab) -> list[str]:
    """The Jobs and pods that Steepest has written to."""
    return [line["objectRef"].get("name", "") for line in changes(lab)]


def by_kueue(lab: KubernetesLab) -> list[str]:
    """The Jobs that Kueue has written to, in its order."""
    lines = map(json.loads, lab.folder.audit.read_text().splitlines())
    return [
        line["objectRef"].get("name", "")
        for line in lines
        if line.get("userAgent", "").startswith("kueue") and line["objectRef"].get("resource") == "jobs"
    ]

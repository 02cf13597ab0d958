"""Jobs in queues of Kueue, and what the API server and its audit log say of them."""

from __future__ import annotations

import json
from typing import Any

from tests.integration.kubernetes.opted_in import changes, template, users_job
from tests.integration.kubernetes.users_gangs import listed

from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE

QUEUE = "team"
PREEMPTING = "ranked"
"""A queue in which Jobs with :data:`URGENT` take the quota of others."""

URGENT = "urgent"
QUOTA = "200m"
CLUSTER_QUEUES = {QUEUE: {}, PREEMPTING: {"withinClusterQueue": "LowerPriority"}}


def queued(name: str, *, opted_in: bool, cpu: str = "50m", queue: str = QUEUE) -> dict[str, Any]:
    """A Job of one pod that sleeps in a queue of Kueue, as its user writes it."""
    asked = in_queue(users_job(name, opted_in=opted_in), queue)
    asked["spec"]["template"] = template(["sleep", "3600"])
    asked["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return asked


def in_queue(asked: dict[str, Any], queue: str = QUEUE, **labels: str) -> dict[str, Any]:
    """The same Job in a queue of Kueue."""
    known = asked["metadata"]
    return {
        **asked,
        "metadata": {**known, "labels": {**known["labels"], "kueue.x-k8s.io/queue-name": queue, **labels}},
    }


def workloads(lab: KubernetesLab) -> list[dict[str, Any]]:
    """What Kueue has made of Jobs."""
    return list(json.loads(lab.kubectl("-n", NAMESPACE, "get", "workloads.kueue.x-k8s.io", "-o", "json"))["items"])


def owners_of_workloads(lab: KubernetesLab) -> list[str]:
    """The Jobs of which Kueue has made something."""
    return sorted(owner["name"] for each in workloads(lab) for owner in each["metadata"]["ownerReferences"])


def condition(lab: KubernetesLab, job: str, kind: str) -> str:
    """The status of a condition of what Kueue has made of a Job; empty: it has none."""
    found = (each for one in _of_job(lab, job) for each in one.get("status", {}).get("conditions", []))
    return next((each["status"] for each in found if each["type"] == kind), "")


def is_admitted(lab: KubernetesLab, job: str) -> bool:
    """Whether Kueue has admitted a Job: its Workload's condition ``Admitted`` says so."""
    return condition(lab, job, "Admitted") == "True"


def phases(lab: KubernetesLab, job: str) -> list[str]:
    """The phases of a Job's pods that do not end."""
    found = listed(lab, "pods", f"job-name={job}")
    return [pod["status"]["phase"] for pod in found if "deletionTimestamp" not in pod["metadata"]]


def workload(lab: KubernetesLab, job: str) -> dict[str, Any]:
    """What Kueue has made of a Job."""
    (found,) = _of_job(lab, job)
    return found


def _of_job(lab: KubernetesLab, job: str) -> list[dict[str, Any]]:
    return [each for each in workloads(lab) if job in {owner["name"] for owner in each["metadata"]["ownerReferences"]}]


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

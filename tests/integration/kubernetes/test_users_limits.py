"""A limit of a Job that a user has made: its template does not have it, so every start sets it again."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from tests.integration.kubernetes.nodes_harness import KubernetesHarness

from steepest.cluster.kubernetes.kinds.known import JOB
from steepest.cluster.kubernetes.kinds.marks import marks
from steepest.cluster.kubernetes.kinds.users_object import UsersObject
from steepest.cluster.kubernetes.objects import GATE, SCHEDULE
from steepest.cluster.kubernetes.users_jobs import USERS_JOB, job_name
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.events.common import Resources
from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.layout import NAMESPACE

LIMIT_M = 230


def gated_job(name: str) -> dict[str, Any]:
    """A user's Job as the API server leaves it: suspended and gated."""
    container = {
        "name": "train",
        "image": DEMO,
        "imagePullPolicy": "Never",
        "command": ["sleep", "3600"],
        "resources": {"requests": {"cpu": "50m"}},
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "schedulingGates": [{"name": GATE}],
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {SCHEDULE: "true"}},
        "spec": {
            "suspend": True,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "template": {"spec": pod},
        },
    }


def marked(harness: KubernetesHarness, job: dict[str, Any]) -> ReplicaId:
    """Make it, and mark it as the migrator does; its job is named after its UID."""
    harness.lab.kubectl("create", "-f", "-", content=job)
    made = job["metadata"]["name"]
    # The Job controller notes that it is suspended, and what was read before that could not be changed.
    harness.kubectl("wait", "--for=condition=Suspended", f"job/{made}", "--timeout=60s")
    found = msgspec.json.decode(harness.kubectl("get", "job", made, "-o", "json"), type=UsersObject)
    name = job_name(found.metadata.name, found.metadata.uid)
    change = json.dumps(marks(JOB, found, harness.cluster.jobs_settings, name))
    harness.kubectl("patch", "job", made, "--type=json", "-p", change)
    return ReplicaId(name)


async def test_a_users_job_has_its_limit_after_every_start(harness: KubernetesHarness) -> None:
    """The kubelet says so, on the node that it was moved to as well."""
    name = "opted-in-limited"  # named so that other tests that read the audit log know it
    replica = marked(harness, gated_job(name))
    spec = ReplicaSpec(
        command=("sleep",), env={USERS_JOB: name}, requests=Resources(cpu_m=50), cpu_limit_m=LIMIT_M, image=DEMO
    )
    seen = []
    for incarnation, node in enumerate(harness.nodes, 1):
        await harness.cluster.start(replica, incarnation, node, spec, None)
        pod = json.loads(harness.kubectl("get", "pod", harness.pod(replica).name, "-o", "json"))
        seen.append((pod["spec"]["nodeName"], pod["status"]["containerStatuses"][0]["resources"]["limits"]["cpu"]))
        await harness.cluster.stop(replica, incarnation, grace_s=30)

    assert seen == [(node, f"{LIMIT_M}m") for node in harness.nodes]

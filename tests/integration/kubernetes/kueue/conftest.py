"""The real Kueue for the session, and queues without a Job for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.kubernetes.kueue.queued_jobs import CLUSTER_QUEUES, QUOTA, URGENT, workloads
from tests.integration.kubernetes.users_gangs import eventually

from tools.kubernetes_lab.kueue import KueueController
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE

API = "kueue.x-k8s.io/v1beta2"


@pytest.fixture(scope="session")
def kueue(lab: KubernetesLab) -> Iterator[None]:
    """The real one, with queues for a fifth of a CPU each."""
    controller = KueueController()
    if why := controller.missing(lab.folder):
        pytest.skip(why)
    controller.start(lab)
    for asked in _objects():
        lab.kubectl("apply", "-f", "-", content={"apiVersion": API, **asked})
    yield
    controller.stop(lab)


def _objects() -> Iterator[dict[str, Any]]:
    resources = [{"name": "cpu", "nominalQuota": QUOTA}]
    groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "any", "resources": resources}]}]
    yield {"kind": "ResourceFlavor", "metadata": {"name": "any"}, "spec": {}}
    yield {"kind": "WorkloadPriorityClass", "metadata": {"name": URGENT}, "value": 1000, "description": "first"}
    for name, preemption in CLUSTER_QUEUES.items():
        spec = {"namespaceSelector": {}, "resourceGroups": groups, "preemption": preemption}
        yield {"kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}
        yield {"kind": "LocalQueue", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"clusterQueue": name}}


@pytest.fixture
def queues(lab: KubernetesLab, kueue: None, open_state: Path) -> Iterator[Path]:
    """A state folder on the volume; at the end no Job is left, and nothing that Kueue has made of one."""
    del kueue
    yield open_state
    lab.kubectl("-n", NAMESPACE, "delete", "jobs", "--all")
    eventually(lambda: not workloads(lab), "Kueue's part of them is gone")

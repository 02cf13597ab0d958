"""The rights that an installation is given: what it needs, as the contract shows, and nothing else."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
import pytest
from tests.integration.kubernetes.figures import Figures

from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.kubernetes.objects import ClusterNode, Listing
from steepest.errors import ClusterError, RefusedError
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import NAMESPACE

NEEDED = (
    ("patch", "jobs.batch", NAMESPACE),
    ("create", "jobs.batch", NAMESPACE),
    ("patch", "pods", NAMESPACE),
    ("patch", "pods/resize", NAMESPACE),
    ("get", "pods/log", NAMESPACE),
    ("create", "events.events.k8s.io", NAMESPACE),
    ("list", "events", NAMESPACE),
    ("patch", "jobs.batch/status", NAMESPACE),
    ("watch", "nodes", ""),
    ("get", "nodes/stats", ""),
    ("list", "pods", "default"),
)
DENIED = (
    ("create", "pods", NAMESPACE),
    ("create", "pods/exec", NAMESPACE),
    ("create", "pods/eviction", NAMESPACE),
    ("get", "secrets", NAMESPACE),
    ("list", "configmaps", NAMESPACE),
    ("create", "deployments.apps", NAMESPACE),
    ("create", "serviceaccounts/token", NAMESPACE),
    ("create", "rolebindings.rbac.authorization.k8s.io", NAMESPACE),
    *((verb, "events.events.k8s.io", NAMESPACE) for verb in ("get", "list", "patch", "update", "delete")),
    ("create", "events", NAMESPACE),
    ("create", "events.events.k8s.io", "default"),
    ("patch", "jobs.batch/status", "default"),
    ("patch", "jobs.batch", "default"),
    ("patch", "pods", "default"),
    ("get", "pods/log", "default"),
    ("delete", "pods", "kube-system"),
    ("patch", "nodes", ""),
    ("delete", "nodes", ""),
    ("get", "nodes/proxy", ""),
    ("get", "persistentvolumes", ""),
    ("impersonate", "users", ""),
    ("patch", "jobsets.jobset.x-k8s.io", NAMESPACE),  # unless an administrator gives that too
)


@pytest.mark.parametrize(("verb", "resource", "namespace"), NEEDED)
def test_what_is_needed_is_allowed(
    lab: KubernetesLab, kubeconfig: Path, verb: str, resource: str, namespace: str
) -> None:
    """The API server itself says so."""
    assert may(lab, kubeconfig, verb, resource, namespace)


def test_everything_else_is_denied(lab: KubernetesLab, kubeconfig: Path, figures: Figures) -> None:
    """Nothing outside the namespace is written, and in it no secrets are read and no pods made or entered."""
    excess = [one for one in DENIED if may(lab, kubeconfig, *one)]
    figures.count(rbac_excess=len(excess))

    assert excess == []


async def test_a_kubelet_tells_what_pods_use_and_nothing_else(lab: KubernetesLab, kubeconfig: Path) -> None:
    """It answers the account itself, by a certificate of the cluster's authority; its pods and their shells are closed."""
    nodes = msgspec.json.decode(lab.kubectl("get", "nodes", "-o", "json"), type=Listing[ClusterNode]).items
    async with contextlib.AsyncExitStack() as stack:
        api = KubernetesApi(kubeconfig)
        stack.push_async_callback(api.close)
        for node in nodes:
            found = msgspec.json.decode(await api.request("GET", "/stats/summary", server=node.kubelet))
            assert found["node"]["nodeName"] == node.metadata.name
            for method, path in (
                ("GET", "/pods"),
                ("GET", "/runningpods/"),
                ("POST", "/run/a/b/c"),
                ("GET", "/exec/a/b/c"),
            ):
                with pytest.raises(RefusedError) as refused:
                    await api.request(method, path, server=node.kubelet)
                assert refused.value.code == "forbidden"


def may(lab: KubernetesLab, kubeconfig: Path, verb: str, resource: str, namespace: str) -> bool:
    """Whether the API server allows an account to do something."""
    where = ("-n", namespace) if namespace else ()
    kind, _, part = resource.partition("/")  # kubectl takes what is behind the slash for a name
    try:
        lab.kubectl(
            f"--kubeconfig={kubeconfig}", *where, "auth", "can-i", verb, kind, f"--subresource={part}", "--quiet"
        )
    except ClusterError:
        return False
    return True

"""The rights that an installation is given: what it needs, as the contract shows, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integration.kubernetes.figures import Figures

from steepest.errors import ClusterError
from steepest.kubernetes_lab.lab import KubernetesLab
from steepest.kubernetes_lab.layout import NAMESPACE

NEEDED = (
    ("patch", "jobs.batch", NAMESPACE),
    ("create", "jobs.batch", NAMESPACE),
    ("patch", "pods", NAMESPACE),
    ("patch", "pods/resize", NAMESPACE),
    ("get", "pods/log", NAMESPACE),
    ("create", "events.events.k8s.io", NAMESPACE),
    ("watch", "nodes", ""),
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
    ("patch", "jobs.batch", "default"),
    ("patch", "pods", "default"),
    ("get", "pods/log", "default"),
    ("delete", "pods", "kube-system"),
    ("patch", "nodes", ""),
    ("delete", "nodes", ""),
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


def may(lab: KubernetesLab, kubeconfig: Path, verb: str, resource: str, namespace: str) -> bool:
    """Whether the API server allows an account to do something."""
    where = ("-n", namespace) if namespace else ()
    try:
        lab.kubectl(f"--kubeconfig={kubeconfig}", *where, "auth", "can-i", verb, resource, "--quiet")
    except ClusterError:
        return False
    return True

"""``steepest doctor`` on a real cluster: what is there is found, and what is not comes with what mends it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from steepest.cli.main import main
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import CLAIM, NAMESPACE


def examined(lab: KubernetesLab, *arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit status, and the findings by check."""
    order = ["doctor", "--kubeconfig", str(lab.folder.kubeconfig), "--json", *arguments]
    done = CliRunner().invoke(main, order)
    assert done.exit_code in (0, 1), done.stderr
    return done.exit_code, {one["check"]: one for one in json.loads(done.stdout)}


@pytest.fixture
def poor(lab: KubernetesLab) -> Iterator[str]:
    """A namespace with a service account without rights, and a claim that one node alone may mount."""
    name = f"poor-{secrets.token_hex(3)}"
    lab.kubectl("create", "namespace", name)
    lab.kubectl("-n", name, "create", "serviceaccount", "steepest")
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "alone", "namespace": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    lab.kubectl("apply", "-f", "-", content=claim)
    yield name
    lab.kubectl("delete", "namespace", name, "--wait=false")


def test_a_cluster_with_all_that_is_needed(lab: KubernetesLab, kubeconfig: Path) -> None:
    """The installation's own account may do all, and so the exit status is 0; what is optional is named."""
    del kubeconfig
    status, found = examined(lab, "--namespace", NAMESPACE, "--claim", CLAIM, "--account", "steepest")

    assert status == 0
    assert {name: one["health"] for name, one in found.items()} == {
        "server": "ok",
        "nodes": "ok",
        "namespace": "ok",
        "volume": "ok",
        "rights": "ok",
        "usage": "ok",
        "events": "ok",
        "users-jobs": "off",
        "keepers": "ok",
    }
    assert "optIn.enabled" in found["users-jobs"]["mend"]


def test_what_is_missing_is_named_with_what_mends_it(lab: KubernetesLab, poor: str) -> None:
    """Each check fails by itself, and the exit status is 1."""
    status, found = examined(lab, "--namespace", poor, "--claim", "alone", "--account", "steepest")
    absent, none = examined(lab, "--namespace", "no-such-place", "--claim", "none")

    assert (status, absent) == (1, 1)
    assert {name for name, one in found.items() if one["health"] == "missing"} == {"volume", "rights"}
    assert "ReadWriteMany" in found["volume"]["mend"]
    assert "patch pods/resize" in found["rights"]["found"]
    assert "rights.yaml" in found["rights"]["mend"]
    assert {name for name, one in none.items() if one["health"] == "missing"} == {"namespace", "volume"}
    assert none["namespace"]["mend"] == "kubectl create namespace no-such-place"


def test_an_opted_in_namespace_is_seen(lab: KubernetesLab, kubeconfig: Path) -> None:
    """By the policy that is bound to it, and by no other namespace's."""
    del kubeconfig
    policies = Path(__file__).parents[3] / "deploy" / "kubernetes" / "opt-in.yaml"
    lab.kubectl("apply", "-f", str(policies))
    lab.kubectl("label", "namespace", NAMESPACE, "steepest.dev/jobs=true", "--overwrite")
    try:
        _, opened = examined(lab, "--namespace", NAMESPACE, "--claim", CLAIM)
        _, other = examined(lab, "--namespace", "default", "--claim", CLAIM)
    finally:
        lab.kubectl("label", "namespace", NAMESPACE, "steepest.dev/jobs-")
        lab.kubectl("delete", "-f", str(policies))

    assert (opened["users-jobs"]["health"], other["users-jobs"]["health"]) == ("ok", "off")

"""Kubeflow's training operator in the lab, for PyTorchJobs alone.

It owns its settings. It must never make a PyTorchJob.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.kubernetes_lab.controllers import HOST, ControllerHost, LabController
from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.layout import TRAINING_OPERATOR

_NAMESPACE = "kubeflow"
_SERVED = Path("/tmp/k8s-webhook-server/serving-certs")  # noqa: S108 - the operator knows no other place
_WAITS = """
- name: init-pytorch
  image: IMAGE
  imagePullPolicy: Never
  resources: {requests: {cpu: 10m, memory: 10Mi}}
  command: [sh, -c, "until getent hosts {{.MasterAddr}}; do sleep 0.2; done"]
"""


class PyTorchJobController(LabController):
    """It makes the pods of a PyTorchJob."""

    name = TRAINING_OPERATOR
    plurals = ("pytorchjobs",)
    port = 9446
    hosts = ("training-operator-ca", f"training-operator.{_NAMESPACE}.svc")

    def arguments(self, lab: ControllerHost, own: Path) -> list[str]:
        """See ``LabController.arguments``. It makes certificates of its own unless it finds ones that it takes."""
        self.keep_certificate(lab, own, _NAMESPACE, "training-operator-webhook-cert")
        self.serve_certificate(own, _SERVED)
        (own / "init-container.yaml").write_text(_WAITS.replace("IMAGE", DEMO))
        return [
            f"--kubeconfig={lab.folder.kubeconfig}",
            "--enable-scheme=pytorchjob",
            f"--metrics-bind-address={HOST}:8547",
            f"--health-probe-bind-address={HOST}:8548",
            f"--webhook-server-port={self.port}",
            f"--pytorch-init-container-template-file={own}/init-container.yaml",
        ]

    def registered_as(self, name: str) -> str:
        """It puts its certificate into its configuration, and knows that by one name alone."""
        del name
        return "validator.training-operator.kubeflow.org"

    def narrowed(self, webhook: dict[str, Any]) -> dict[str, Any] | None:
        """Those of kinds that it does not serve here are left out."""
        return webhook if "pytorchjob" in webhook["clientConfig"]["service"]["path"] else None

    def probe(self) -> dict[str, Any]:
        """See ``LabController.probe``."""
        template = {"spec": {"containers": [{"name": "pytorch", "image": "a"}]}}
        return {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": {"name": "probe", "namespace": "default"},
            "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template}}},
        }

"""Kubeflow's Trainer in the lab. The JobSets that it makes need JobSet's own controller beside it.

It owns its settings. It must never make a TrainJob, or a runtime.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.kubernetes_lab.controllers import HOST, ControllerHost, LabController
from tools.kubernetes_lab.layout import TRAINER


class TrainerController(LabController):
    """It makes a JobSet of a TrainJob and its runtime."""

    name = TRAINER
    plurals = ("trainjobs", "trainingruntimes", "clustertrainingruntimes")
    port = 9444

    def arguments(self, lab: ControllerHost, own: Path) -> list[str]:
        """See ``LabController.arguments``."""
        self.serve_certificate(own, own / "k8s-webhook-server" / "serving-certs")  # below TMPDIR, and nowhere else
        settings = {
            "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "webhook": {"port": self.port, "host": HOST},
            "metrics": {"bindAddress": f"{HOST}:8545", "secureServing": False},
            "health": {"healthProbeBindAddress": f"{HOST}:8546"},
            "certManagement": {"enable": False},
        }
        return self.configured(lab, own, settings)

    def environment(self, own: Path) -> dict[str, str]:
        """See ``LabController.environment``."""
        return {"TMPDIR": str(own)}

    def probe(self) -> dict[str, Any]:
        """See ``LabController.probe``."""
        pod = {"spec": {"containers": [{"name": "node", "image": "a"}]}}
        job = {"name": "node", "template": {"spec": {"template": pod}}}
        return {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "TrainingRuntime",
            "metadata": {"name": "probe", "namespace": "default"},
            "spec": {"template": {"spec": {"replicatedJobs": [job]}}},
        }

"""JobSet's own controller in the lab.

It owns its settings. It must never make a JobSet.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.kubernetes_lab.controllers import HOST, ControllerHost, LabController
from tools.kubernetes_lab.layout import JOB_SET

_OF_A_JOB_SET = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}


class JobSetController(LabController):
    """It makes the Jobs of a JobSet."""

    name = JOB_SET
    plurals = ("jobsets",)
    port = 9443

    def arguments(self, lab: ControllerHost, own: Path) -> list[str]:
        """See ``LabController.arguments``."""
        settings = {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            "webhook": {"port": self.port, "host": HOST, "certDir": str(own)},
            "metrics": {"bindAddress": f"{HOST}:8543"},
            "health": {"healthProbeBindAddress": f"{HOST}:8544"},
            "internalCertManagement": {"enable": False},
        }
        return self.configured(lab, own, settings)

    def narrowed(self, webhook: dict[str, Any]) -> dict[str, Any]:
        """Those about pods are asked about a JobSet's pods alone."""
        if "pod" in webhook["clientConfig"]["service"]["path"]:
            webhook["objectSelector"] = _OF_A_JOB_SET
        return webhook

    def probe(self) -> dict[str, Any]:
        """See ``LabController.probe``."""
        template = {"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}}
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "probe", "namespace": "default"},
            "spec": {"suspend": True, "replicatedJobs": [{"name": "a", "template": template}]},
        }

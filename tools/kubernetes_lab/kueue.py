"""Kueue in the lab, for Jobs alone.

It owns its settings. It must never make a queue, or a Job.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.kubernetes_lab.controllers import HOST, ControllerHost, LabController
from tools.kubernetes_lab.layout import KUEUE

_NAMESPACE = "kueue-system"
_CONVERTED = ("localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters")
_OF = ("v1-job", "-workload", "-clusterqueue", "-cohort", "-resourceflavor")


class KueueController(LabController):
    """It admits, suspends and resumes the Jobs of its queues.

    Attributes:
        metrics_port: Where it serves its metrics.
        health_port: Where it says whether it works.
    """

    name = KUEUE
    plurals = ("workloads.kueue.x-k8s.io", "clusterqueues", "localqueues", "resourceflavors")
    port = 9445
    metrics_port = 8549
    health_port = 8550
    hosts = ("kueue-ca", f"kueue-webhook-service.{_NAMESPACE}.svc")

    def arguments(self, lab: ControllerHost, own: Path) -> list[str]:
        """See ``LabController.arguments``. With certificates of its own it needs no file outside of ``own``."""
        self.keep_certificate(lab, own, _NAMESPACE, "kueue-webhook-server-cert")
        return self.configured(lab, own, self.settings(own))

    def settings(self, own: Path) -> dict[str, Any]:
        """Its configuration."""
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": _NAMESPACE,
            "leaderElection": {"leaderElect": False},
            "webhook": {"port": self.port, "host": HOST, "certDir": str(own)},
            "metrics": {"bindAddress": f"{HOST}:{self.metrics_port}"},
            "health": {"healthProbeBindAddress": f"{HOST}:{self.health_port}"},
            "internalCertManagement": {
                "enable": True,
                "webhookServiceName": "kueue-webhook-service",
                "webhookSecretName": "kueue-webhook-server-cert",
            },
            "featureGates": {"VisibilityOnDemand": False},
            "integrations": {"frameworks": ["batch/job"]},
        }

    def kind(self, found: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
        """It converts some of its kinds itself."""
        if found["spec"]["names"]["plural"] in _CONVERTED:
            webhook = {"clientConfig": asked, "conversionReviewVersions": ["v1"]}
            found["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        return found

    def narrowed(self, webhook: dict[str, Any]) -> dict[str, Any] | None:
        """Those of pods, and of kinds that it does not serve here, are left out."""
        return webhook if webhook["clientConfig"]["service"]["path"].endswith(_OF) else None

    def probe(self) -> dict[str, Any]:
        """See ``LabController.probe``."""
        return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "probe"}}

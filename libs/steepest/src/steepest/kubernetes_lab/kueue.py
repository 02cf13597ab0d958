"""Kueue in the lab, for Jobs alone.

It owns its settings. It must never make a queue, or a Job.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steepest.kubernetes_lab.controllers import HOST, LabController
from steepest.kubernetes_lab.lab import KubernetesLab
from steepest.kubernetes_lab.layout import KUEUE

_NAMESPACE = "kueue-system"
_CONVERTED = ("localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters")
_OF = ("v1-job", "-workload", "-clusterqueue", "-cohort", "-resourceflavor")


class KueueController(LabController):
    """It admits, suspends and resumes the Jobs of its queues."""

    name = KUEUE
    plurals = ("workloads.kueue.x-k8s.io", "clusterqueues", "localqueues", "resourceflavors")
    port = 9445
    hosts = ("kueue-ca", f"kueue-webhook-service.{_NAMESPACE}.svc")

    def arguments(self, lab: KubernetesLab, own: Path) -> list[str]:
        """See ``LabController.arguments``. With certificates of its own it needs no file outside of ``own``."""
        self.keep_certificate(lab, own, _NAMESPACE, "kueue-webhook-server-cert")
        settings = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "namespace": _NAMESPACE,
            "leaderElection": {"leaderElect": False},
            "webhook": {"port": self.port, "host": HOST, "certDir": str(own)},
            "metrics": {"bindAddress": f"{HOST}:8549"},
            "health": {"healthProbeBindAddress": f"{HOST}:8550"},
            "internalCertManagement": {
                "enable": True,
                "webhookServiceName": "kueue-webhook-service",
                "webhookSecretName": "kueue-webhook-server-cert",
            },
            "featureGates": {"VisibilityOnDemand": False},
            "integrations": {"frameworks": ["batch/job"]},
        }
        return self.configured(lab, own, settings)

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

"""The Kubernetes cluster keeps the port's contract, on two real nodes."""

from __future__ import annotations

from steepest.testing.contracts.cluster_contract import ClusterContract
from steepest.testing.contracts.cluster_reports import MetricsContract


class TestKubernetesCluster(ClusterContract, MetricsContract):
    """The whole contract."""

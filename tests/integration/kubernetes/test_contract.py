"""The Kubernetes cluster keeps the port's contract, on two real nodes."""

from __future__ import annotations

from tests.harness.contracts.cluster_contract import ClusterContract
from tests.harness.contracts.cluster_reports import MetricsContract


class TestKubernetesCluster(ClusterContract, MetricsContract):
    """The whole contract."""

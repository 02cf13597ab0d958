"""The Docker cluster keeps the port's contract, on two real engines."""

from __future__ import annotations

from steepest.testing.contracts.cluster_contract import ClusterContract
from steepest.testing.contracts.cluster_reports import MetricsContract


class TestDockerCluster(ClusterContract, MetricsContract):
    """The whole contract."""

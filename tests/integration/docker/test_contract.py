"""The Docker cluster keeps the port's contract, on two real engines."""

from __future__ import annotations

from tests.harness.contracts.cluster_contract import ClusterContract
from tests.harness.contracts.cluster_reports import MetricsContract


class TestDockerCluster(ClusterContract, MetricsContract):
    """The whole contract."""

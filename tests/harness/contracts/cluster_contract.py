"""The contract of the cluster port, as tests that each adapter inherits.

It owns the sum of the suites, which hold the promises of ``steepest.cluster.port`` in a form that can fail. They never
know which adapter they run on, and ask for nothing that containers on several machines cannot give.

To run them on an adapter, say how to make, drop and disturb it, and inherit::

    class TestMyCluster(ClusterContract):
        @pytest.fixture
        async def harness(self, tmp_path):
            async with contextlib.aclosing(MyHarness(tmp_path)) as harness:
                await harness.come_back()
                yield harness
"""

from __future__ import annotations

import pytest
from tests.harness.contracts.cluster_checkpoints import CheckpointContract
from tests.harness.contracts.cluster_gangs import GangContract
from tests.harness.contracts.cluster_harness import ClusterFixture, ClusterHarness
from tests.harness.contracts.cluster_lifecycle import LifecycleContract
from tests.harness.contracts.cluster_reports import ReportsContract


class ClusterContract(LifecycleContract, CheckpointContract, ReportsContract, GangContract):
    """The whole contract. Inherit it with a fixture ``harness`` that gives an empty cluster."""

    @pytest.fixture
    def stage(self, harness: ClusterHarness) -> ClusterFixture:
        """The harness, with the acts that most tests share."""
        return ClusterFixture(harness)

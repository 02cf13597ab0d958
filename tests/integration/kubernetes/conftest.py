"""Two real nodes for the session, and an empty state folder on their volume for every test."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.integration.kubernetes.nodes_harness import KubernetesHarness

from steepest.kubernetes_lab.lab import KubernetesLab, missing, running_lab
from steepest.kubernetes_lab.layout import default_folder
from steepest.testing.contracts.cluster_harness import ClusterFixture


@pytest.fixture(scope="session")
def lab() -> Iterator[KubernetesLab]:
    """The lab: one that runs already, or one that runs for this session."""
    folder = default_folder()
    if why := missing(folder):
        pytest.skip(f"{why}; get it with: make kubernetes")
    with running_lab(folder) as running:
        yield running


@pytest.fixture
async def harness(lab: KubernetesLab) -> AsyncIterator[KubernetesHarness]:
    """An empty cluster."""
    async with contextlib.aclosing(KubernetesHarness(lab, f"test-{secrets.token_hex(4)}")) as made:
        await made.come_back()
        yield made


@pytest.fixture
def stage(harness: KubernetesHarness) -> ClusterFixture:
    """The harness, with the acts that most tests share."""
    return ClusterFixture(harness)

"""Two real engines for the session, and an empty cluster on them for every test."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.harness import folders
from tests.harness.contracts.cluster_harness import ClusterFixture
from tests.harness.docker_harness import DockerHarness, running_engines, why_not

from steepest.cluster.docker.mounts import NOBODY
from steepest_lab.docker_engines.engine_daemon import DockerEngine

tmp_path = folders.tmp_path


@pytest.fixture(autouse=True)
def jobs_own_their_folder(tmp_path: Path) -> None:
    """A job's container runs as the owner of its folder, and never as root."""
    if not os.getuid():
        os.chown(tmp_path, NOBODY, NOBODY)


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, DockerEngine]]:
    """Engines of different sizes."""
    if why := why_not():
        pytest.skip(why)
    with running_engines(tmp_path_factory.mktemp("docker")) as started:
        yield started


@pytest.fixture
async def harness(tmp_path: Path, engines: dict[str, DockerEngine]) -> AsyncIterator[DockerHarness]:
    """An empty cluster."""
    async with contextlib.aclosing(DockerHarness(tmp_path / "state", engines)) as made:
        await made.come_back()
        yield made


@pytest.fixture
def stage(harness: DockerHarness) -> ClusterFixture:
    """The harness, with the acts that most tests share."""
    return ClusterFixture(harness)

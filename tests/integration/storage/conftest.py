"""A real storage server behind a link that is short of bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steepest_lab.jobs.streamed_data import write_features
from steepest_lab.storage.server import StorageServer, found, running_storage

FEATURES = 64


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[StorageServer]:
    """A server with the features of the job ``streamed``; without one the test is skipped."""
    if found() is None:
        pytest.skip("no lighttpd; get it with: make storage (apt-get install lighttpd)")
    folder = tmp_path / "storage"
    folder.mkdir()
    with running_storage(folder) as server:
        write_features(server.data / "features.bin", FEATURES)
        yield server

"""What the runtime's tests share: a system in memory, in virtual time, so that they never wait."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.harness.system.rig import Rig
from tests.harness.virtual_time import VirtualLoop

from steepest.runtime import pool_loop, stream_loop


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Mapping[str, type[VirtualLoop]]:  # noqa: ARG001 - a hook
    """Run async tests in virtual time."""
    return {"virtual": VirtualLoop}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A log and two nodes, and nothing that runs yet."""
    async with contextlib.aclosing(Rig(tmp_path, {"n1": 300, "n2": 300})) as rig:
        yield rig


@pytest.fixture
def few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots after a handful of records."""
    monkeypatch.setattr(pool_loop, "BATCH", 4)
    monkeypatch.setattr(pool_loop, "SNAPSHOT_EVERY", 4)
    monkeypatch.setattr(stream_loop, "SNAPSHOT_EVERY", 4)

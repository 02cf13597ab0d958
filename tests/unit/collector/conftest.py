"""These tests never wait: their event loop's time is virtual."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.harness.system.rig import Rig
from tests.harness.virtual_time import VirtualLoop

from steepest.events.parameters import PoolParameters, SpeConParameters


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Mapping[str, type[VirtualLoop]]:  # noqa: ARG001 - a hook
    """Run async tests in virtual time."""
    return {"virtual": VirtualLoop}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """A system without a log-collector."""
    async with contextlib.aclosing(Rig(tmp_path, {"n1": 500, "n2": 500})) as rig:
        rig.start("placer", "worker-monitor", "migrator", "categorizer", rig.beats())
        await rig.configure(PoolParameters(specon=SpeConParameters(interval_ms=2_000)))
        yield rig
        assert await rig.broken() == []

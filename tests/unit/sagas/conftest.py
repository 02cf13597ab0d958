"""What the sagas' tests share: virtual time, and a job that is to be moved."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.harness.scenarios.move_scene import Scene
from tests.harness.system.rig import Rig
from tests.harness.virtual_time import VirtualLoop


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Mapping[str, type[VirtualLoop]]:  # noqa: ARG001 - a hook
    """Run async tests in virtual time."""
    return {"virtual": VirtualLoop}


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """Two nodes, a running job, and a migrator."""
    async with contextlib.aclosing(Rig(tmp_path, {"n1": 300, "n2": 300})) as rig:
        scene = Scene(rig)
        yield scene

"""Tests of messages run in virtual time: their pauses are minutes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.harness.virtual_time import VirtualLoop


def pytest_asyncio_loop_factories(config: Any, item: Any) -> Mapping[str, type[VirtualLoop]]:  # noqa: ARG001 - a hook
    """Run async tests in virtual time."""
    return {"virtual": VirtualLoop}

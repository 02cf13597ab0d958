"""A test of real components or processes that fails in CI runs once more: a broker, an engine, a busy machine may be late.

The first failure stands in the summary as RERUN, so that it can be mended. All other tests have one try.
"""

from __future__ import annotations

import os

import pytest
from tests.harness.garbage import REAL

STARTING_PROCESSES = ("cli", "cluster", "collector", "demo_jobs", "log", "runtime")
TRIED_AGAIN = (*REAL, "tests/frameworks/", *(f"tests/unit/{folder}/" for folder in STARTING_PROCESSES))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give a second try where all components are required."""
    if os.environ.get("STEEPEST_REQUIRE_COMPONENTS") == "1":
        for item in items:
            if item.nodeid.startswith(TRIED_AGAIN):
                item.add_marker(pytest.mark.flaky(reruns=1))

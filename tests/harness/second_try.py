"""A test of real components that fails in CI runs once more: a broker, an engine or a busy machine may be late for one test.

The first failure stands in the summary as RERUN, so that it can be mended. Tests without real components have one try only.
"""

from __future__ import annotations

import os

import pytest

REAL = ("tests/integration/", "tests/contract/", "tests/chaos/", "tests/frameworks/")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of real components a second try where all components are required."""
    if os.environ.get("STEEPEST_REQUIRE_COMPONENTS") == "1":
        for item in items:
            if item.nodeid.startswith(REAL):
                item.add_marker(pytest.mark.flaky(reruns=1))

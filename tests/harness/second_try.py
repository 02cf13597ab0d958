"""A test of real components or processes that fails in CI runs once more: a broker, an engine, a busy machine may be late.

The summary names each test that passed in its second try, with its first failure, and says which of them ``tests/flaky.md``
does not list with a reason. All other tests have one try.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.harness.garbage import REAL

STARTING_PROCESSES = ("cli", "cluster", "collector", "demo_jobs", "log", "runtime")
TRIED_AGAIN = (*REAL, "tests/frameworks/", *(f"tests/unit/{folder}/" for folder in STARTING_PROCESSES))
LISTED = Path(__file__).parents[1] / "flaky.md"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give a second try where all components are required."""
    if os.environ.get("STEEPEST_REQUIRE_COMPONENTS") == "1":
        for item in items:
            if item.nodeid.startswith(TRIED_AGAIN):
                item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which tests have to be listed."""
    listed = LISTED.read_text()
    names = dict.fromkeys(report.nodeid for report in terminalreporter.stats.get("rerun", ()))
    for name in names:
        if f"`{name}`" not in listed:
            terminalreporter.line(f"tests/flaky.md does not list {name}: mend it, or add it with the reason")

"""What all tests have in common: who runs them, whose a test's logging is, and that a required component is no skip.

Public traces and logs (``STEEPEST_DATA``) are no component: nothing that Steepest does needs them.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import structlog

pytest_plugins = ["tests.harness.limit", "tests.harness.signals", "tests.harness.examples"]

REQUIRED = os.environ.get("STEEPEST_REQUIRE_COMPONENTS") == "1"
HERE = Path(__file__).parent
SHARE_A_COMPONENT = {
    HERE / "chaos": "kafka",
    HERE / "integration" / "compose": "engine",
    HERE / "integration" / "docker": "engine",
    HERE / "integration" / "kafka": "kafka",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs all tests of a broker or an engine, so that each is started once, and all of an integration file."""
    for item in items:
        if group := SHARE_A_COMPONENT.get(item.path.parent):
            item.add_marker(pytest.mark.xdist_group(group))
        elif item.path.is_relative_to(HERE / "integration"):
            item.add_marker(pytest.mark.xdist_group(str(item.path.relative_to(HERE))))


@pytest.hookimpl(trylast=True, specname="pytest_collection_modifyitems")
def begin_with_the_longest(items: list[pytest.Item]) -> None:
    """A test of half a minute that begins last keeps one core at work and the others waiting."""
    items.sort(key=lambda item: HERE / "hostile" not in item.path.parents)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """One worker more than there are cores, because tests of whole systems wait for what they have started."""
    return (os.cpu_count() or 1) + 1 if config.option.numprocesses == "auto" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where every component is required, a test that skips for lack of one has failed."""
    report = yield
    if REQUIRED and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if "STEEPEST_DATA" not in reason:
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} needs what is missing here, and everything is required: {reason}"
    del call
    return report


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """A command under test sets up the process's logging; the next test begins with the defaults."""
    yield
    structlog.reset_defaults()

"""Many fresh examples of every property test: each test is run again until it has had enough of them, or enough time.

A round is a run with as many examples as the test itself asks for, within the limit of a test. How many examples each test
has come to is printed at the end; a failure ends the test's rounds and is kept (``tests.harness.examples``).
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis.statistics import collector

LIMIT = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """How much is enough."""
    parser.addoption("--examples", type=int, default=50_000, help="examples of each property test")
    parser.addoption("--seconds", type=float, default=600, help="no round of a test begins later than this")


def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Keep the test's limit, which every round has."""
    item.stash[LIMIT] = settings


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """After its first round, run the test again and again, within what Hypothesis has set up around it."""
    begun, ran = time.monotonic(), 0

    def count(statistics: Any) -> None:
        nonlocal ran
        phases = (statistics.get(f"{name}-phase", {}) for name in ("reuse", "generate"))
        ran += sum(case["status"] == "valid" for phase in phases for case in phase.get("test-cases", ()))

    with collector.with_value(count):  # type: ignore[arg-type]
        try:
            result = yield
            while not _failed(item) and 0 < ran < _option(item, "examples"):
                if time.monotonic() - begun > _option(item, "seconds"):
                    break
                item.config.hook.pytest_timeout_cancel_timer(item=item)
                item.config.hook.pytest_timeout_set_timer(item=item, settings=item.stash[LIMIT])
                item.runtest()
            return result
        finally:
            item.user_properties += [("examples", ran), ("seconds", round(time.monotonic() - begun))]


def _failed(item: pytest.Item) -> bool:
    """Whether a ``TestCase``, which keeps its failures for itself, has one."""
    return bool(getattr(item, "_excinfo", None))


def _option(item: pytest.Item, name: str) -> float:
    value: float = item.config.getoption(name)
    return value


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """A line a test, fewest examples first."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports if _is_call(report)]
    terminalreporter.section("fresh examples")
    for report in sorted(reports, key=lambda report: dict(report.user_properties)["examples"]):
        found = dict(report.user_properties)
        terminalreporter.line(f"{found['examples']:8,} in {found['seconds']:5,} s  {report.outcome:6}  {report.nodeid}")


def _is_call(report: object) -> bool:
    return getattr(report, "when", "") == "call" and "examples" in dict(getattr(report, "user_properties", ()))

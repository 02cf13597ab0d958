"""A hard time limit that no test can catch: some time after pytest-timeout's alarm, the process ends.

The alarm raises in the test once. Code that catches it continues without a limit: Hypothesis sees a failing example and
runs the example again. The limit here is kept outside the interpreter. Before it ends the process it prints where each
thread is; run in parallel, pytest names the test, starts another worker and goes on.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Generator
from typing import Any

import pytest

GRACE_S = 120.0
"""From the alarm on: for printing the failure, for shrinking a failing example, and for ending what the test has started."""

ERRORS = pytest.StashKey[int]()
LIMIT_S = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the grace period, which a test of this limit shortens."""
    parser.addoption("--grace", type=float, default=GRACE_S, help="seconds from a test's timeout to the process's end")


def pytest_configure(config: pytest.Config) -> None:
    """Duplicate stderr before pytest captures it."""
    config.stash[ERRORS] = os.dup(2)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the duplicate."""
    os.close(config.stash[ERRORS])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> Generator[None, object, object]:
    """The process has the same limit as its test, plus a grace period."""
    item.stash[LIMIT_S] = settings.timeout + item.config.getoption("grace")
    _arm(item)
    return (yield)


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Set the limit again, which pytest removes for a debugger after a failure: the test's tear-down must still end."""
    if isinstance(node, pytest.Item) and LIMIT_S in node.stash and not node.config.getoption("usepdb"):
        _arm(node)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Cancel the limit when the test has ended."""
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def _arm(item: pytest.Item) -> None:
    faulthandler.dump_traceback_later(item.stash[LIMIT_S], exit=True, file=item.config.stash[ERRORS])

"""What all tests have in common: whose a test's logging is, and that a required component is no skip.

Public traces and logs (``STEEPEST_DATA``) are no component: nothing that Steepest does needs them. What Go's proxy does not
serve on the day cannot be had.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import structlog

# A failed assertion in what tests share shows what it has compared, as one in a test does.
pytest.register_assert_rewrite(
    *(f"tests.{folder.name}" for folder in Path(__file__).parent.iterdir() if folder.is_dir())
)

pytest_plugins = [
    "tests.harness.limit",
    "tests.harness.signals",
    "tests.harness.forms",
    "tests.harness.examples",
    "tests.harness.workers",
    "tests.harness.garbage",
    "tests.harness.second_try",
]

REQUIRED = os.environ.get("STEEPEST_REQUIRE_COMPONENTS") == "1"
NO_COMPONENTS = ("STEEPEST_DATA", "is not served", "this kernel does not let CRIU work")
"""What the reason of a skip says that is none for lack of a component."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where every component is required, a test that skips for lack of one has failed."""
    report = yield
    if REQUIRED and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(absent in reason for absent in NO_COMPONENTS):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} needs what is missing here, and everything is required: {reason}"
    del call
    return report


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """A command under test sets up the process's logging; the next test begins with the defaults.

    Except for tracebacks: structlog's default draws each in colours with the values of all variables, for half a second.
    """
    structlog.reset_defaults()
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(processors=[*structlog.get_config()["processors"][:-1], plain])
    yield
    structlog.reset_defaults()

"""Many fresh examples of every property test: each test runs again until its number of examples or its time is used up.

A round is a run with as many examples as the test itself asks for, within the limit of a test. The number of examples of
each test is printed at the end; a failure ends the test's rounds and is kept (``tests.harness.examples``).

``.hypothesis/fresh.json`` keeps the count of each test while neither the code under test nor the test's file changes. So
many examples can be run in several runs: a run continues where the last one ended, and leaves out finished tests.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis.statistics import collector

ROOT = Path(__file__).parents[2]
KEPT = Path(".hypothesis", "fresh.json")
LIMIT = pytest.StashKey[Any]()
HAD = pytest.StashKey["dict[str, Had]"]()


class Had(msgspec.Struct, kw_only=True):
    """The examples and time of a test so far.

    Attributes:
        code: Digest of the code under test and of the test's file.
        seconds: Total time of its rounds.
        is_failed: Whether the newest round failed: then it is run again, however many rounds it has had.
    """

    code: str
    examples: int = 0
    seconds: float = 0.0
    is_failed: bool = False


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for the number of examples and the time."""
    parser.addoption("--examples", type=int, default=50_000, help="examples of each property test")
    parser.addoption("--seconds", type=float, default=600, help="no round of a test begins later than this")


def pytest_configure(config: pytest.Config) -> None:
    """Load the counts of earlier runs."""
    kept = config.rootpath / KEPT
    config.stash[HAD] = msgspec.json.decode(kept.read_bytes(), type=dict[str, Had]) if kept.exists() else {}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that have had enough examples."""
    done = [item for item in items if _has_had_enough(item)]
    config.hook.pytest_deselected(items=done)
    items[:] = [item for item in items if item not in done]


def _has_had_enough(item: pytest.Item) -> bool:
    had = _had(item.config, item.nodeid)
    return not had.is_failed and had.examples >= item.config.getoption("examples")


def _had(config: pytest.Config, nodeid: str) -> Had:
    """The count of a test for the current code."""
    code = _digest(config.rootpath / nodeid.partition("::")[0])
    had = config.stash[HAD].get(nodeid)
    return had if had is not None and had.code == code else Had(code=code)


@cache
def _digest(test: Path) -> str:
    digest = hashlib.sha256(test.read_bytes())
    for file in _sources():
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _sources() -> Iterator[Path]:
    for folder in ("libs", "services"):
        yield from sorted((ROOT / folder).glob("*/src/**/*.py"))


def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Store the test's time limit, which applies to every round."""
    item.stash[LIMIT] = settings


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """After its first round, repeat the test inside Hypothesis's set-up."""
    begun, ran = time.monotonic(), 0
    wanted = _option(item, "examples") - _had(item.config, item.nodeid).examples

    def count(statistics: Any) -> None:
        nonlocal ran
        phases = (statistics.get(f"{name}-phase", {}) for name in ("reuse", "generate"))
        ran += sum(case["status"] == "valid" for phase in phases for case in phase.get("test-cases", ()))

    with collector.with_value(count):  # type: ignore[arg-type]
        try:
            result = yield
            while not _failed(item) and 0 < ran < wanted:
                if time.monotonic() - begun > _option(item, "seconds"):
                    break
                item.config.hook.pytest_timeout_cancel_timer(item=item)
                item.config.hook.pytest_timeout_set_timer(item=item, settings=item.stash[LIMIT])
                item.runtest()
            return result
        finally:
            item.user_properties += [("examples", ran), ("seconds", round(time.monotonic() - begun, 3))]


def _failed(item: pytest.Item) -> bool:
    """Whether a ``TestCase``, which records its failures itself, has failed."""
    return bool(getattr(item, "_excinfo", None))


def _option(item: pytest.Item, name: str) -> float:
    value: float = item.config.getoption(name)
    return value


class Keeper:
    """Keeps the tests' counts, in the one process that receives all reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a test's rounds immediately, so that an interrupted run keeps them."""
        if not _is_call(report):
            return
        found, had = dict(report.user_properties), _had(self._config, report.nodeid)
        had.examples += int(str(found["examples"]))
        had.seconds += float(str(found["seconds"]))
        had.is_failed = report.failed
        self._config.stash[HAD][report.nodeid] = had
        kept = self._config.rootpath / KEPT
        kept.parent.mkdir(exist_ok=True)
        temporary = kept.with_suffix(".new")
        temporary.write_bytes(msgspec.json.encode(self._config.stash[HAD]))
        temporary.replace(kept)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Register the keeper in the controller only: pytest-xdist's workers send their reports there."""
    if not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(Keeper(session.config))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print a line for each test that the current code has passed or failed, over all runs; fewest examples first."""
    current = {test: had for test, had in config.stash[HAD].items() if _is_current(config, test)}
    terminalreporter.section("fresh examples")
    for test, had in sorted(current.items(), key=lambda one: one[1].examples):
        rate = had.examples / had.seconds if had.seconds else 0.0
        outcome = "failed" if had.is_failed else "passed"
        terminalreporter.line(f"{had.examples:8,} in {had.seconds:7,.0f} s ({rate:6,.0f}/s)  {outcome}  {test}")


def _is_current(config: pytest.Config, test: str) -> bool:
    file = config.rootpath / test.partition("::")[0]
    return file.exists() and _had(config, test) is config.stash[HAD][test]


def _is_call(report: object) -> bool:
    return getattr(report, "when", "") == "call" and "examples" in dict(getattr(report, "user_properties", ()))

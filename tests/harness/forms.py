"""Three forms of a run: the short one for everyone, ``--long`` for CI, and ``--all`` before a release.

The long form adds the tests that are marked ``long``, and gives property tests four times the examples. Where all
components are required, a run has the long form.

A real broker, engine or cluster is slow, so that the short and the long form run of its folder only the tests that are
marked ``end_to_end``: the way of a job through that component. The rest of a folder runs with ``--all``, and where the
command line names the folder or a file in it.
"""

from __future__ import annotations

import os

import pytest

WHY = "of the long form; run it with: make test TEST=--long"
BY_COMPONENT = (
    "tests/chaos/",
    "tests/frameworks/",
    "tests/integration/compose/",
    "tests/integration/docker/",
    "tests/integration/kafka/",
    "tests/integration/kept/",
    "tests/integration/prometheus/",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    required = os.environ.get("STEEPEST_REQUIRE_COMPONENTS") == "1"
    parser.addoption("--long", action="store_true", default=required, help="run the long form, as CI does")
    parser.addoption("--all", action="store_true", help="run the long form, and all tests of real components")
    parser.addoption(
        "--fault-jobs", type=int, default=1, help="jobs with each real fault (tests/integration/test_watching.py)"
    )
    parser.addoption("--trainings", type=int, default=0, help="in PyTorch that are moved, on nodes of each kind")
    parser.addoption("--kills", type=int, default=10, help="of each kind (tests/integration/kept)")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """The whole form includes the long one."""
    config.option.long = config.option.long or config.option.all


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip in the short form the tests that the long one adds, and leave out those that only the whole one has."""
    if not config.option.long:
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason=WHY))
    if not config.option.all:
        named = tuple(folder for folder in BY_COMPONENT if any(f"{each}/".startswith(folder) for each in config.args))
        left_out = [item for item in items if _waits(item) and not item.nodeid.startswith(named or "-")]
        without = set(left_out)
        items[:] = [item for item in items if item not in without]
        config.hook.pytest_deselected(items=left_out)


def _waits(item: pytest.Item) -> bool:
    """Whether only the whole form has it."""
    return item.nodeid.startswith(BY_COMPONENT) and item.get_closest_marker("end_to_end") is None

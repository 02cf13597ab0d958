"""A test that leaves a socket, a file or a process open fails by itself, and not a later one in whose time it is collected.

What was there before the first test (modules, tests, strategies) is left out, so that a collection costs milliseconds.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Generator, Iterator

import pytest

REAL = ("tests/integration/", "tests/contract/", "tests/chaos/", "tests/hostile/")
"""Where tests open real resources; a collection after each of the thousands of others would find nothing."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected: little of it is any, and looking for it takes a fifth of that time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Take what collecting the tests has made for permanent."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def collected(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect what a test of real resources has left, while its report is still open.

    It is set up first, and so it ends after all other fixtures of the test. What a first try has left is no fault of the
    second one, in whose time its traceback is given up.
    """
    if getattr(request.node, "execution_count", 1) > 1:
        _forget_first_try()
    yield
    if request.node.nodeid.startswith(REAL):
        gc.collect()


def _forget_first_try() -> None:
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        vars(sys).pop(name, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()

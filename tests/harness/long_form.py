"""Two forms of a run: the short one for everyone, and the long one (``--long``) for CI and before a release.

The long form adds the tests that are marked ``long``, and gives property tests four times the examples. Where all
components are required, a run has the long form.
"""

from __future__ import annotations

import os

import pytest

WHY = "of the long form; run it with: make test TEST=--long"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    required = os.environ.get("STEEPEST_REQUIRE_COMPONENTS") == "1"
    parser.addoption("--long", action="store_true", default=required, help="run the long form, as CI does")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip in the short form what the long one adds."""
    if not config.getoption("long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason=WHY))

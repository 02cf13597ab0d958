"""Which examples Hypothesis runs: the same in every run, or new ones each time with ``--hypothesis-profile=fresh``.

The long form of a run (``tests.harness.forms``) has four times as many as the short one.

Hypothesis also draws the constants of modules that are loaded, and which those are depends on what ran before. They are left
out, so that a test's examples depend on the test alone.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

KEPT = ".hypothesis/examples"
"""Where fresh examples that failed are kept; the next fresh run begins with them."""

SHORT = 25
"""Examples of a test in the short form of a run; in the long one they are Hypothesis's own hundred."""

settings.register_profile(
    "fresh", settings.get_profile("ci"), derandomize=False, database=DirectoryBasedExampleDatabase(KEPT)
)
settings.register_profile("short", settings.get_profile("ci"), max_examples=SHORT)


def scaled(count: int) -> int:
    """A test's own number of examples, of which the short form runs the same share as of all others."""
    assert settings.default is not None
    return max(1, count * settings.default.max_examples // 100)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the profile, and leave the constants out unless it asks for fresh examples."""
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("ci" if config.getoption("long", default=False) else "short")
    if settings.default is not None and settings.default.derandomize:
        nothing = Constants()
        providers._get_local_constants = lambda: nothing

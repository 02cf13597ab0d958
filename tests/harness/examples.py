"""Which examples Hypothesis runs: the same in every run, or new ones each time with ``--hypothesis-profile=fresh``.

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

settings.register_profile(
    "fresh", settings.get_profile("ci"), derandomize=False, database=DirectoryBasedExampleDatabase(KEPT)
)
settings.load_profile("ci")


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Leave the constants out unless the profile asks for fresh examples."""
    if settings.default is not None and settings.default.derandomize:
        nothing = Constants()
        providers._get_local_constants = lambda: nothing

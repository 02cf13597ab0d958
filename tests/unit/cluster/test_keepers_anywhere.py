"""Where a keeper's programs are looked for."""

from __future__ import annotations

import pytest

from steepest.cluster import keepers


@pytest.mark.parametrize("module", ["/opt/steepest/steepest/cluster/keepers.py", "/a/b/c/d/e/f/keepers.py"])
def test_the_programs_are_looked_for_wherever_the_package_is(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image may have it near its root, where there is no checkout above it."""
    monkeypatch.setattr(keepers, "__file__", module)
    assert keepers.find_whole()

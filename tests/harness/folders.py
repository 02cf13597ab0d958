"""A test's folder that is emptied at the end, however deep a job has nested it.

Pytest removes old folders by recursion: one that is too deep ends a later run with an error.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """Pytest's, emptied by a program that does not recurse."""
    yield tmp_path
    subprocess.run(["rm", "-rf", *tmp_path.iterdir()], check=True)

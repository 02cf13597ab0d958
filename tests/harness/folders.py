"""A test's folder that is emptied at the end, at any depth of nesting.

Pytest removes old folders by recursion: a folder that is too deep fails a later run.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """Pytest's folder, emptied by a program that does not recurse."""
    yield tmp_path
    subprocess.run(["rm", "-rf", *tmp_path.iterdir()], check=True)

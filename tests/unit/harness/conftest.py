"""A pytest of its own, in a process of its own, over a file of tests made for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

ROOT = Path(__file__).parents[3]
Done = subprocess.CompletedProcess[str]
Run = Callable[..., Done]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run tests, given as source, or what is named, with some plugins and options, by a command that may start pytest."""

    def done(
        source: str,
        *options: str,
        plugins: Sequence[str],
        before: Sequence[str] = (),
        at: str = "test_made.py",
        run: str = "",
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> Done:
        made = tmp_path / at
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(source)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        named = [argument for plugin in plugins for argument in ("-p", plugin)]
        return subprocess.run(
            [*before, sys.executable, "-m", "pytest", "-rA", *named, *options, run or at],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT), **variables},
        )

    return done

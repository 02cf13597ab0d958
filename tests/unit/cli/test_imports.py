"""What the commands of daily use import: no more than they need, because each start pays for it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.unit.cli.conftest import Holding

SCRIPT = """
import sys
from steepest.cli.main import main
main(sys.argv[1:], prog_name="steepest", standalone_mode=False)
"""
LISTED = f"{SCRIPT.replace('main(sys', 'try: main(sys')}except SystemExit: pass\nprint('modules:', *sys.modules)"

HEAVY = (
    *("numpy", "scipy", "sklearn", "docker", "kafka", "aiokafka", "paho", "re2"),
    *("steepest.sim", "steepest.policies.placement", "steepest.training_logs", "steepest.cluster.local"),
)


def imported(*call: str) -> list[str]:
    """The modules that are there when a command has run."""
    done = subprocess.run([sys.executable, "-c", LISTED, *call], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.mark.parametrize(
    ("call", "own"), [(("--help",), 5), (("jobs",), 110), (("submit", "--name", "a", "--", "true"), 110)]
)
def test_a_command_imports_what_it_needs(holding: Holding, call: tuple[str, ...], own: int) -> None:
    """None of the libraries that others need, and few modules of Steepest."""
    state = () if call == ("--help",) else ("--state", str(holding().root))
    modules = imported(*call[:1], *state, *call[1:])
    heavy = [name for name in modules if any(name == each or name.startswith(f"{each}.") for each in HEAVY)]

    assert heavy == []
    assert sum(name.split(".")[0] == "steepest" for name in modules) <= own

"""What the commands of daily use import: no more than they need, because each start pays for it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.unit.cli.conftest import Holding

from steepest.cli.main import COMMANDS

SCRIPT = """
import sys
from steepest.cli.main import main
main(sys.argv[1:], prog_name="steepest", standalone_mode=False)
"""
LISTED = f"{SCRIPT.replace('main(sys', 'try: main(sys')}except SystemExit: pass\nprint('modules:', *sys.modules)"

HEAVY = (
    *(
        "numpy",
        "scipy",
        "sklearn",
        "docker",
        "kafka",
        "aiokafka",
        "paho",
        "re2",
        "rich",
        "structlog",
        "prometheus_client",
    ),
    *("kubernetes_asyncio", "aiohttp", "httpx2"),
    *("psutil", "importlib.metadata", "attr", "asyncinotify", "difflib", "random", "secrets", "tomllib"),
    *("steepest_lab.sim", "steepest.policies.placement", "steepest.training_logs", "steepest.cluster.local"),
)
HELP_NEEDS_NOT = (*HEAVY, "asyncio", "msgspec", "steepest.events", "steepest.view", "steepest.log")


def imported(*call: str) -> list[str]:
    """The modules that are there when a command has run."""
    done = subprocess.run([sys.executable, "-c", LISTED, *call], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()[1:]


def among(modules: list[str], unwanted: tuple[str, ...]) -> list[str]:
    """Those that are an unwanted one, or within it."""
    return [name for name in modules if any(name == each or name.startswith(f"{each}.") for each in unwanted)]


def of_steepest(modules: list[str]) -> int:
    """How many are Steepest's own."""
    return sum(name.split(".")[0] == "steepest" for name in modules)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_imports_the_command_and_nothing_that_it_runs(command: str) -> None:
    """The help of every command, and that of all of them."""
    modules = imported(*command.split(), "--help")

    assert among(modules, HELP_NEEDS_NOT) == []
    assert of_steepest(modules) <= 21


@pytest.mark.parametrize("call", [("jobs",), ("nodes",), ("submit", "--name", "a", "--", "true")])
def test_a_command_imports_what_it_needs(holding: Holding, call: tuple[str, ...]) -> None:
    """None of the libraries that others need, and few modules of Steepest."""
    modules = imported(*call[:1], "--state", str(holding().root), *call[1:])

    assert among(modules, HEAVY) == []
    assert of_steepest(modules) <= 145


def test_a_demo_without_pairs_needs_no_scipy() -> None:
    """What `make demo` installs has no SciPy."""
    modules = "steepest_lab.demo.beside.comparison, steepest_lab.demo.beside.what_if"
    program = f"import {modules}, sys; sys.exit('scipy' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_gateway_by_its_address_needs_no_client_of_kubernetes() -> None:
    """Only ``--server kube:`` does, whose import takes a second."""
    program = (
        "import sys\n"
        "from steepest.app.settings.reading import read_settings\n"
        "from steepest.cli.pool.remote import client_of\n"
        "client_of(read_settings({'client.server': 'http://127.0.0.1:9'}, None, {})).close()\n"
        "print('modules:', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert among(done.stdout.split(), ("kubernetes_asyncio", "aiohttp", "steepest.cluster.kubernetes")) == []

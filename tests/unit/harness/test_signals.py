"""What tests start takes signals as it would from a terminal."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from .conftest import ROOT, Run

STARTS = """
import asyncio, signal, subprocess, sys

ASKS = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, end='')"]

def test_subprocess():
    assert subprocess.run(ASKS, stdout=subprocess.PIPE).stdout == b"True"

def test_asyncio():
    async def run():
        process = await asyncio.create_subprocess_exec(*ASKS, stdout=subprocess.PIPE)
        return (await process.communicate())[0]

    assert asyncio.run(run()) == b"True"
"""
IGNORING = ("sh", "-c", 'trap "" INT QUIT HUP; exec "$@"', "sh")


@pytest.mark.parametrize("parallel", [(), ("xdist.plugin",)], ids=["alone", "parallel"])
def test_children_of_a_background_job_can_be_interrupted(run: Run, parallel: tuple[str, ...]) -> None:
    """Children of tests have the signals' defaults, though pytest was started with some ignored, as a background job is."""
    done = run(STARTS, *["-n1"] * bool(parallel), plugins=("tests.harness.signals", *parallel), before=IGNORING)

    assert done.returncode == 0, done.stdout


def test_a_background_job_is_not_interrupted(run: Run) -> None:
    """Pytest itself goes on ignoring what it was started to ignore."""
    itself = "import os, signal\n\ndef test_lives():\n    os.kill(os.getpid(), signal.SIGHUP)\n"

    assert run(itself, plugins=("tests.harness.signals",), before=IGNORING).returncode == 0


@pytest.mark.long
def test_a_part_of_the_tests_passes_in_the_background() -> None:
    """The test that interrupts a real ``steepest events --follow`` passes under ``trap '' INT``."""
    test = f"tests/integration/test_embedded_cli.py::test_events_can_be_followed[{signal.SIGINT.value}]"
    command = [*IGNORING, sys.executable, "-m", "pytest", "-q", test]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout

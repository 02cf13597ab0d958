"""Commands whose output is full, closed or in another encoding, and which are called where no folder is any more."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
COMMAND = f"{shlex.quote(sys.executable)} -m steepest"


def shell(line: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """What a line of a shell prints to what it leaves open."""
    return subprocess.run(
        ["/bin/sh", "-c", line], cwd=cwd, env=os.environ | env, capture_output=True, text=True, check=False
    )


@needs_full
@pytest.mark.parametrize("call", ["--help", "--version", "jobs --help", "config example", "config show --json"])
def test_a_full_disk_under_the_output_is_told_in_one_line(call: str, tmp_path: Path) -> None:
    """No trace, whether click, a command or JSON prints; and no complaint at the exit."""
    done = shell(f"{COMMAND} {call} > {FULL}", tmp_path)

    assert done.returncode == 2
    assert done.stderr == (
        "Error: the output cannot be written: No space left on device; make room, or write it to another place\n"
    )


@pytest.mark.parametrize(
    ("call", "status"),
    [("config show >&-", 0), ("--help 2>&-", 0), ("jobs 2>&-", 2), ("config example <&- >&- 2>&-", 0)],
)
def test_closed_streams_take_what_is_printed(call: str, status: int, tmp_path: Path) -> None:
    """As a program of the system that has no terminal may call it."""
    done = shell(f"{COMMAND} {call}", tmp_path)

    assert (done.returncode, done.stderr) == (status, "")


def test_a_letter_that_the_encoding_lacks_is_a_question_mark(tmp_path: Path) -> None:
    """The help of `up` has an ellipsis, which Latin-1 lacks."""
    done = shell(f"{COMMAND} up --help", tmp_path, PYTHONIOENCODING="latin-1")

    assert (done.returncode, done.stderr) == (0, "")
    assert "unix://?" in done.stdout


@pytest.mark.parametrize("call", ["jobs", "submit -- true", "doctor"])
def test_a_folder_that_is_gone_is_told(call: str, tmp_path: Path) -> None:
    """The shell stands in a folder that something else has removed."""
    done = shell(f"mkdir gone && cd gone && rmdir ../gone && {COMMAND} {call}", tmp_path)

    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "Error: the current folder is not there any more; change to another one"
    assert "Traceback" not in done.stderr


@needs_full
def test_a_system_that_logs_to_a_full_disk_goes_on(tmp_path: Path) -> None:
    """Neither a line for people nor one of the log fails."""
    script = """
import sys
from steepest.app.logging import configure_logging
from steepest.logger import Logger
from steepest.standard_streams import printing_on
configure_logging()
with printing_on():
    for _ in range(3000):
        Logger().warning("full", why="x" * 100)
        print("y" * 100, flush=True)
sys.exit(7)
"""
    done = shell(f"{shlex.quote(sys.executable)} -c {shlex.quote(script)} > {FULL} 2>&1", tmp_path)

    assert done.returncode in (7, 120)  # 120: Python itself could not flush at its exit


def test_a_log_that_takes_nothing_is_told_in_words(tmp_path: Path) -> None:
    """Every process that waits for it says so, why, and when it tries again."""
    script = """
import asyncio
from steepest.app.logging import configure_logging
from steepest.errors import LogUnavailableError
from steepest.runtime.outbox import patiently

async def main():
    async for attempt in patiently():
        with attempt:
            if attempt.num == 1:
                raise LogUnavailableError("No space left on device")

configure_logging()
asyncio.run(main())
"""
    done = shell(f"{shlex.quote(sys.executable)} -c {shlex.quote(script)}", tmp_path)

    (line,) = done.stderr.splitlines()
    said = json.loads(line)
    assert (said["event"], said["error"], said["level"]) == (
        "the log takes or gives nothing",
        "No space left on device",
        "warning",
    )
    assert 0 < said["next_try_s"] <= 1


@pytest.mark.parametrize("call", ["up --state ''", "record --out ''", "submit --workdir '' -- true"])
def test_an_empty_folder_is_not_the_current_one(call: str, tmp_path: Path) -> None:
    """``--state "$UNSET"`` would fill the current folder, and close it to other users."""
    done = shell(f"{COMMAND} {call}", tmp_path)

    assert done.returncode == 2
    assert "it is empty; name a folder" in done.stderr
    assert not list(tmp_path.iterdir())

"""``steepest top`` on a terminal of its own: what it shows, and how it is left."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time

import pytest
from tests.harness.child import child
from tests.harness.system.running_system import STEEPEST
from tests.unit.cli.conftest import Holding

from steepest.events import cluster as c
from steepest.events.common import Resources

EVENTS = (
    c.NodeJoined(node="n1", capacity=Resources(1_000)),
    c.JobSubmitted(job="shown", request="r", spec=c.JobSpec(command=("true",), model="a model")),
)
PATIENCE_S = 60.0


@pytest.mark.parametrize("command", [("top",), ("jobs", "--watch")])
@pytest.mark.parametrize("leave", ["q", "interrupt"])
def test_a_live_view_is_left_by_a_key_or_an_interrupt(holding: Holding, command: tuple[str, ...], leave: str) -> None:
    """It shows the pool's jobs, and the terminal is as it was before."""
    folder = holding(*EVENTS)
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    call = [*STEEPEST, *command, "--state", str(folder.root)]
    with subprocess.Popen(call, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = b""
        while b"shown" not in seen and select.select([ours], [], [], PATIENCE_S)[0]:
            seen += os.read(ours, 65_536)
        if leave == "q":
            os.write(ours, b"q")
        else:
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and select.select([ours], [], [], PATIENCE_S)[0]:
            try:
                seen += os.read(ours, 65_536)
            except OSError:  # Linux says so when the other end is closed
                break
        assert process.wait(PATIENCE_S) == 0
    os.close(ours)

    assert b"shown" in seen
    assert seen.rindex(b"\x1b[?1049l") > seen.index(b"\x1b[?1049h")


def test_on_a_pipe_it_prints_lines_from_now_on(holding: Holding) -> None:
    """A signal ends it cleanly; earlier lines are not printed again."""
    folder = holding(*EVENTS)
    with folder.sole(), child([*STEEPEST, "top", "--state", str(folder.root)]) as process:
        assert process.stdout is not None
        process.send_signal(signal.SIGTERM)
        printed = process.stdout.read()

    assert printed == ""


@pytest.mark.parametrize("command", [("top",), ("events", "--follow")])
def test_where_nothing_runs_nothing_is_waited_for(holding: Holding, command: tuple[str, ...]) -> None:
    """On a pipe it ends with one line that says so."""
    call = [*STEEPEST, *command, "--state", str(holding(*EVENTS).root)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=PATIENCE_S, check=True)

    assert (done.stdout + done.stderr).count("\n") == 1
    assert "Steepest does not run on" in done.stdout + done.stderr

"""What jobs in containers print, through ``steepest logs``: while they run, and when they are over."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.harness.docker_harness import SIZES_M
from tests.harness.system.running_system import STEEPEST, RunningSystem

from steepest.events import cluster as c
from steepest_lab.docker_engines.engine_daemon import DockerEngine

SCRIPT = r"""
echo one
printf '\033[31mtwo\033[0m\n' >&2
while [ ! -e go ]; do sleep 0.05; done
echo three
printf 'four without an end'
"""
PRINTED = ["one", "two", "three", "four without an end"]


@pytest.fixture
def system(tmp_path: Path, engines: dict[str, DockerEngine]) -> Iterator[RunningSystem]:
    """The whole system on two engines."""
    running = RunningSystem(
        tmp_path / "state",
        *("--cluster", f"docker={','.join(engines[name].url for name in SIZES_M)}", "--folder", str(tmp_path)),
        *(option for name, cpu_m in SIZES_M.items() for option in ("--node", f"{name}={cpu_m}m")),
        *("--heartbeat", "250ms"),
    )
    running.start()
    yield running
    running.end()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_container_s_output_is_followed_to_its_end(system: RunningSystem, tmp_path: Path) -> None:
    """Line by line while it runs, without colours; afterwards the same, and in JSON with the incarnation."""
    system.submit("talks", "sh", "-c", SCRIPT, options=("--workdir", str(tmp_path)))
    followed = subprocess.Popen(
        [*STEEPEST, "logs", "--state", str(tmp_path / "state"), "--follow", "talks"], stdout=subprocess.PIPE, text=True
    )
    assert followed.stdout is not None
    first = [followed.stdout.readline().rstrip("\n") for _ in range(2)]
    assert followed.poll() is None
    (tmp_path / "go").touch()
    rest = followed.stdout.read().splitlines()
    followed.stdout.close()

    assert (sorted(first), rest, followed.wait()) == (sorted(PRINTED[:2]), PRINTED[2:], 0)
    assert system.await_end("talks").outcome is c.Outcome.FINISHED
    assert system.call("logs", "talks").stdout.splitlines() == [*first, *rest]
    assert system.call("logs", "talks", "--lines", "1").stdout.splitlines() == PRINTED[-1:]
    in_json = [json.loads(line) for line in system.call("logs", "talks", "--json").stdout.splitlines()]
    assert [(one["incarnation"], click.unstyle(one["line"])) for one in in_json] == [
        (1, line) for line in [*first, *rest]
    ]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_failure_in_a_container_shows_what_it_printed_last(system: RunningSystem, tmp_path: Path) -> None:
    """In ``explain``, as on emulated nodes."""
    system.submit("breaks", "sh", "-c", "echo no such data set >&2; exit 3", options=("--workdir", str(tmp_path)))
    ended = system.await_end("breaks")

    assert (ended.outcome, ended.exit_status) == (c.Outcome.FAILED, 3)
    assert "no such data set" in system.call("logs", "breaks").stdout
    assert "no such data set" in system.call("explain", "breaks").stdout

"""`up --gateway` over a log in files, with the real command line and real processes."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from tests.harness.system.running_system import RunningSystem
from tests.integration.gateway.gateway_system import answers, follow_a_job_through_the_gateway, free_ports

from steepest.app.state_folder import KafkaPlace, StateFolder

pytestmark = pytest.mark.slow


@pytest.mark.long
def test_a_job_is_followed_through_the_gateway(tmp_path: Path) -> None:
    """Submitted with `--server --wait`, also where the gateway is killed meanwhile; its events are those of the log."""
    follow_a_job_through_the_gateway(tmp_path / "state")


def test_where_the_log_is_on_kafka_jobs_asks_the_gateway(tmp_path: Path) -> None:
    """It has read the log already; to read it again takes seconds. Here no broker is there at all."""
    port, _ = free_ports()
    system = RunningSystem(tmp_path / "state", "--gateway", str(port))
    try:
        system.start()
        answers(f"http://127.0.0.1:{port}")
        system.submit("one", "true")
        StateFolder(system.state).remember_kafka(KafkaPlace("127.0.0.1:9", "", own=False))
        rows = system.ask("jobs", "--all")
        StateFolder(system.state).kafka_file.unlink()
    finally:
        system.end()

    assert [row["job"] for row in rows] == ["one"]


def test_a_gateway_that_cannot_start_ends_the_system(tmp_path: Path) -> None:
    """With its own reason, not the hint alone: the port is another one's, or tokens are missing."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for where in (str(taken.getsockname()[1]), "0.0.0.0:0"):
            system = RunningSystem(tmp_path / where.replace(":", "-"), "--gateway", where)
            done = system.call("up", "--gateway", where)
            assert done.returncode == 2
            assert done.stderr.startswith("Error: gateway cannot start: ")
            assert "live page" not in done.stdout
            assert re.search(f"cannot serve on 127.0.0.1:{where}|token", done.stderr)
            assert done.stderr.count("\n") == 1

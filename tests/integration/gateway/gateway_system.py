"""`steepest up --gateway` from outside: a job is submitted to it and followed there, while the gateway is killed."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

import psutil
from tests.harness.contracts import contract_job
from tests.harness.processes import with_command_lines
from tests.harness.system.running_system import PATIENCE_S, RunningSystem

SUBMITTED = 'steepest_gateway_requests_total{operation="POST /jobs",status="200"}'
OPTIONS = ("--interval", "300ms", "--heartbeat", "150ms", "--node", "only=0.8")
JOB = (sys.executable, contract_job.__file__, "--steps", "300")


def free_ports() -> tuple[int, int]:
    """A port for the gateway, and one for metrics whose next ones are likely to be free."""
    with socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def metrics(address: str) -> dict[str, float]:
    """The samples that a process serves, by series."""
    with urllib.request.urlopen(address, timeout=30) as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {series: float(value) for series, _, value in (line.rpartition(" ") for line in lines)}


def answers(address: str) -> None:
    """Wait until a gateway answers."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            urllib.request.urlopen(f"{address}/healthz", timeout=5).close()
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


def answered(address: str) -> dict[str, float]:
    """The metrics of a gateway once it has answered to a submission."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := metrics(address)).get(SUBMITTED) != 1:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def gateway_of(system: RunningSystem) -> psutil.Process:
    """The process of a system's gateway."""
    children = with_command_lines(psutil.Process(system.pid).children())
    return next(child for child, line in children if "steepest_services.gateway" in line)


def follow_a_job_through_the_gateway(state: Path, *options: str, env: dict[str, str] | None = None) -> None:
    """All that a user does with a remote pool works, and goes on where the gateway was killed."""
    port, own = free_ports()
    address = f"http://127.0.0.1:{port}"
    system = RunningSystem(state, *OPTIONS, "--gateway", str(port), "--metrics", str(own), *options, env=env)
    try:
        system.start()
        answers(address)
        waited: list[Any] = []
        waiting = threading.Thread(
            target=lambda: waited.append(
                system.call("submit", "--server", address, "--wait", "--json", "--name", "far", "--", *JOB)
            )
        )
        waiting.start()
        system.await_event(lambda found: getattr(found.event, "job", None) == "far")
        scraped = system.await_line("gateway: metrics on ").rpartition(" ")[2]
        counted = answered(scraped)
        gateway_of(system).kill()
        system.await_end("far")
        waiting.join(PATIENCE_S)
        answers(address)
        (done,) = waited
        assert done.returncode == 0, done.stderr
        said = json.loads(done.stdout)

        assert (said["state"], said["outcome"], said["exit_status"]) == ("ended", "finished", 0)
        assert counted['steepest_lag_records{loop="feed:default"}'] >= 0
        assert counted['steepest_records_total{loop="feed:default"}'] > 0
        far, near = (
            system.call("events", *more, "--job", "far", "--json").stdout for more in (("--server", address), ())
        )
        assert far == near != ""
        assert system.breaches() == []
    finally:
        system.end()

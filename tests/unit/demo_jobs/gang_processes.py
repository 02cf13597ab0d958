"""Starts the gangs among the demo jobs as processes, supervised as a cluster would."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.unit.demo_jobs.conftest import PATIENCE_S, command


def free_ports(count: int) -> list[int]:
    """Ports of loopback at which nothing listens now."""
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


@dataclass
class Gangs:
    """Starts the incarnations of a gang; all have one checkpoint folder."""

    root: Path
    module: str = "parallel"
    processes: list[subprocess.Popen[str]] = field(default_factory=list)
    incarnation: int = 0

    def start(
        self, world_size: int, *arguments: str, restore: str = "", asked: bool = False
    ) -> list[subprocess.Popen[str]]:
        """Start the next incarnation; ``asked``: with a request for a checkpoint waiting for its chief."""
        self.incarnation += 1
        peers = ",".join(f"127.0.0.1:{port}" for port in free_ports(world_size))
        started = []
        for rank in range(world_size):
            control = self.control(self.incarnation, rank)
            control.mkdir(parents=True)
            if asked:
                request = {"request": "a", "hold_s": PATIENCE_S}
                control.joinpath("checkpoint-request.json").write_text(json.dumps(request))
            variables = {
                "STEEPEST_JOB": "parallel",
                "STEEPEST_REPLICA": str(rank),
                "STEEPEST_INCARNATION": str(self.incarnation),
                "STEEPEST_CONTROL": str(control),
                "STEEPEST_CHECKPOINTS": str(self.root / "checkpoints"),
                "STEEPEST_RESTORE": restore,
                "STEEPEST_RANK": str(rank),
                "STEEPEST_WORLD_SIZE": str(world_size),
                "STEEPEST_PEERS": peers,
            }
            started.append(
                subprocess.Popen(
                    command(self.module, arguments), env=os.environ | variables, stdout=subprocess.PIPE, text=True
                )
            )
        self.processes += started
        return started

    def control(self, incarnation: int, rank: int) -> Path:
        """The control folder of a process."""
        return self.root / f"control-{incarnation}-{rank}"

    def reports(self, incarnation: int, rank: int = 0) -> list[dict[str, Any]]:
        """What a process has reported."""
        path = self.control(incarnation, rank) / "reports.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def losses(self, incarnation: int) -> list[float]:
        """The losses that the chief reported."""
        return [report["metrics"]["loss"] for report in self.reports(incarnation)]

    def saved(self, incarnation: int) -> str:
        """Wait for the name of the checkpoint."""
        path = self.control(incarnation, 0) / "checkpoint-ack.json"
        wait_for(path.exists)
        return str(json.loads(path.read_text())["name"])

    def kill(self) -> None:
        """Kill all that is left of them."""
        for process in self.processes:
            process.kill()
            process.communicate()


def wait_for(holds: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    pause = threading.Event()
    for _ in range(round(PATIENCE_S / 0.01)):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError("it does not hold")


def ends(processes: list[subprocess.Popen[str]]) -> list[int]:
    """The exit statuses of all."""
    return [process.wait(PATIENCE_S) for process in processes]

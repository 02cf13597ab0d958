"""Processes of one service on an installation, started and ended by a test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from steepest.app.state_folder import StateFolder

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0


class Replicas:
    """Processes of one service on one installation."""

    def __init__(self, folder: StateFolder, service: str) -> None:
        self._folder = folder
        self._service = service
        self.output = folder.root / f"{service}.log"
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, *, release_after: bool = False) -> None:
        """Start one more process, of this version or as the release after it would run."""
        command = [f"steepest_services.{self._service.replace('-', '_')}"]
        env = {**os.environ, "STEEPEST_STATE_DIR": str(self._folder.root)}
        if release_after:
            command = ["tests.harness.release_after", self._service]
        output = self.output.open("ab")
        self.running.append(
            subprocess.Popen([sys.executable, "-m", *command], env=env, cwd=ROOT, stdout=output, stderr=output)
        )
        output.close()

    def send(self, number: int) -> None:
        """Send the oldest a signal, and wait until it is gone."""
        process = self.running.pop(0)
        process.send_signal(number)
        status = process.wait(PATIENCE_S)
        assert status == (0 if number == signal.SIGTERM else -number)

    def end(self) -> None:
        """Leave nothing running."""
        for process in self.running:
            process.kill()
            process.wait()

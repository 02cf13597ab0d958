# ruff: noqa: INP001 - a tool, not a package
"""``make kafka-start`` and ``make kafka-stop``: a broker that stays when this process leaves."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

from steepest.log.broker import Broker

FOLDER = Path(".kafka/broker")
PID = FOLDER / "pid"
PORT = 9092


def start() -> None:
    """Start it, unless it runs."""
    if not runs():
        broker = Broker(FOLDER, port=PORT)
        broker.start()
        PID.write_text(str(broker.pid))
    print(f"Kafka runs at 127.0.0.1:{PORT}: steepest up --kafka 127.0.0.1:{PORT}")  # noqa: T201 - the answer


def stop() -> None:
    """Stop it, if it runs; its topics stay."""
    if runs():
        os.kill(int(PID.read_text()), signal.SIGTERM)
    PID.unlink(missing_ok=True)


def runs() -> bool:
    """Whether the process that was started is there."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, ValueError):
        os.kill(int(PID.read_text()), 0)
        return True
    return False


if __name__ == "__main__":
    {"start": start, "stop": stop}[sys.argv[1]]()

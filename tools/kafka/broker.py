# ruff: noqa: INP001 - a tool, not a package
"""``make kafka-start`` and ``make kafka-stop``: a broker that stays when this process leaves."""

from __future__ import annotations

import sys
from pathlib import Path

from steepest.log.kafka.broker import Broker

PORT = 9092


def main() -> None:
    """Start it unless it runs, or stop it; its topics stay."""
    broker = Broker(Path(".kafka/broker"), port=PORT)
    broker.start()
    if sys.argv[1] == "stop":
        broker.stop()
    else:
        print(f"Kafka runs at {broker.bootstrap}: steepest up --kafka {broker.bootstrap}")  # noqa: T201 - the answer


main()

"""The door for probes, against those who open connections and say nothing."""

from __future__ import annotations

import asyncio
import socket
import urllib.request
from types import SimpleNamespace
from typing import Any

import pytest

from steepest.clock import SystemClock
from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.metric_defs import Metrics
from steepest.runtime.monitoring.probe import CONNECTIONS_MOST, Address, probes


def ask(port: int) -> tuple[int, bytes]:
    """What is said of the process's health."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60) as answer:
        return answer.status, answer.read()


async def test_who_connects_and_says_nothing_gives_way(capfd: pytest.CaptureFixture[str]) -> None:
    """Of too many connections the oldest is closed, so a probe is answered; nothing is printed about any of them."""
    runtime: Any = SimpleNamespace(metrics=Metrics(), health=Health(SystemClock()))
    with probes(runtime, Address(0)) as at:
        silent = [socket.create_connection(("127.0.0.1", at.port), timeout=60) for _ in range(4 * CONNECTIONS_MOST)]
        answer = await asyncio.to_thread(ask, at.port)
        closed = [await asyncio.to_thread(one.recv, 1) for one in silent[: 3 * CONNECTIONS_MOST]]
        for one in silent:
            one.close()

    assert answer == (200, b"yes\n")
    assert closed == [b""] * 3 * CONNECTIONS_MOST
    assert capfd.readouterr() == ("", "")

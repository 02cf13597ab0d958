"""Processes that are kept running, and what is kept of their output."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from tests.harness.waiting import until

from steepest.app import process_supervisor
from steepest.app.process_supervisor import ProcessSupervisor, Program

FLOOD = """
import sys, time
print("first", flush=True)
for number in range(200_000):
    print(number)
print("last", flush=True)
time.sleep(600)
"""


async def test_the_output_of_a_process_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too long moves to a second file, its end alone; the process prints on into the first one."""
    monkeypatch.setattr(process_supervisor, "OUTPUT_MOST", 100_000)
    monkeypatch.setattr(process_supervisor, "OUTPUT_KEPT", 1_000)
    monkeypatch.setattr(process_supervisor, "LOOK_EVERY_S", 0.05)
    output = tmp_path / "service.log"
    program = Program(name="service", command=(sys.executable, "-c", FLOOD), output=output)
    stop = asyncio.Event()
    running = asyncio.create_task(ProcessSupervisor([program], lambda _: None).run(stop))
    kept = tmp_path / "service.log.1"
    await until(lambda: kept.exists() and output.stat().st_size <= 100_000 and b"last" in _read(output, kept))
    stop.set()
    await running

    assert 0 < kept.stat().st_size <= 1_000
    assert b"first" not in _read(output, kept)


def _read(*files: Path) -> bytes:
    return b"".join(file.read_bytes() for file in files)

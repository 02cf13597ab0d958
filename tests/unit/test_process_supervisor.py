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


async def test_what_cannot_start_is_not_started_again(tmp_path: Path) -> None:
    """The error is the last line that it printed; the others are stopped."""
    wrong = "import sys; print('one'); print('Error: port 80 is taken; name another', file=sys.stderr); sys.exit(2)"
    programs = [
        Program(name=name, command=(sys.executable, "-c", code), output=tmp_path / name)
        for name, code in {"gateway": wrong, "other": "import time; time.sleep(600)"}.items()
    ]
    supervisor = ProcessSupervisor(programs, lambda _: None)
    with pytest.raises(ExceptionGroup) as refusal:
        await supervisor.run(asyncio.Event())

    assert [str(error) for error in refusal.value.exceptions] == [
        "gateway cannot start: port 80 is taken; name another"
    ]
    assert (supervisor.starts["gateway"], supervisor.pids) == (1, {})


async def test_what_ran_is_started_again(tmp_path: Path) -> None:
    """Also where it ends with the status of wrong settings: a log that is away comes back."""
    marker = tmp_path / "second"
    code = f"import sys, pathlib; p = pathlib.Path({str(marker)!r}); n = p.exists(); p.touch(); sys.exit(2 if n else 1)"
    supervisor = ProcessSupervisor(
        [Program(name="one", command=(sys.executable, "-c", code), output=tmp_path / "one")], lambda _: None
    )
    stop = asyncio.Event()
    running = asyncio.create_task(supervisor.run(stop))
    await until(lambda: supervisor.starts.get("one", 0) >= 3)
    stop.set()
    await running

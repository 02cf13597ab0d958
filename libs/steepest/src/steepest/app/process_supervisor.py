"""Processes that run for as long as this one does: started, started again when they die, stopped cleanly.

It owns waits and order. It must never know what a process does. (No kept library supervises inside one asyncio
program; this is the known exception to leaving it to one.)
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from steepest.aio import until_stopped
from steepest.errors import InputError

STOP_S = 10.0
"""From SIGTERM to SIGKILL: a service finishes its batch and keeps its snapshots in far less."""

FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 5.0
STEADY_S = 10.0
"""A process that ran for this long is restarted after the first wait again."""


CANNOT_START = 2
"""The exit status by which a program says that its settings are wrong: to start it again mends nothing."""

OUTPUT_MOST = 16 * 2**20
OUTPUT_KEPT = 2**20
"""Bytes of a program's output: of more, the last ones are kept in a second file, and it begins again."""

LOOK_EVERY_S = 2.0


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """The process to run.

    Attributes:
        settings: The variables of its settings: it gets these, and others of this process's, but none of its settings.
        output: The file that gets what it prints; what was before, once that is a lot, is in ``….log.1``.
    """

    name: str
    command: Sequence[str]
    settings: Mapping[str, str] = {}
    output: Path


class ProcessSupervisor:
    """Keeps programs running.

    Attributes:
        pids: The process of each program that runs now.
        starts: How often each was started.
    """

    def __init__(self, programs: Sequence[Program], tell: Callable[[str], None]) -> None:
        """``tell`` gets sentences for people."""
        self.pids: dict[str, int] = {}
        self.starts: dict[str, int] = {}
        self._programs = programs
        self._tell = tell

    async def run(self, stop: asyncio.Event) -> None:
        """Keep all of them running until ``stop`` is set; then stop all of them together.

        Raises:
            InputError: One cannot start, because its settings are wrong or its port is taken: it says why.
        """
        async with asyncio.TaskGroup() as group:
            for program in self._programs:
                group.create_task(self._keep(program, stop), name=program.name)

    async def _keep(self, program: Program, stop: asyncio.Event) -> None:
        wait_s = FIRST_WAIT_S
        while not stop.is_set():
            began = time.monotonic()
            status = await self._once(program, stop)
            if stop.is_set():
                return
            if status == CANNOT_START and self.starts[program.name] == 1:
                raise InputError(f"{program.name} cannot start: {_last_line(program.output)}", code="cannot-start")
            wait_s = FIRST_WAIT_S if time.monotonic() - began > STEADY_S else min(wait_s * 2, LONGEST_WAIT_S)
            self._tell(f"{program.name} {_how(status)} and is started again (its output is in {program.output})")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), wait_s)

    async def _once(self, program: Program, stop: asyncio.Event) -> int:
        """Run it until it ends, or until ``stop`` is set and it has been stopped; give its exit status."""
        # Its standard input is ours to hold: when we are gone it ends, and the process knows.
        with program.output.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *program.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**inherited(), **program.settings},
                start_new_session=True,
            )
        self.pids[program.name] = process.pid
        self.starts[program.name] = self.starts.get(program.name, 0) + 1
        ended = asyncio.ensure_future(process.wait())
        try:
            cap = partial(_cap, program.output)
            await until_stopped(asyncio.shield(ended), stop, tick=cap, interval_s=LOOK_EVERY_S)
        finally:
            await _end(process, ended)
            self.pids.pop(program.name, None)
        return await ended


def inherited() -> dict[str, str]:
    """The variables of this process that are no settings: another one needs PATH and the like."""
    return {name: value for name, value in os.environ.items() if not name.startswith("STEEPEST_")}


def _last_line(output: Path) -> str:
    """The last line that a program printed, without the word that it begins with."""
    lines = output.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), f"see {output}")
    return last.removeprefix("Error: ")


def _cap(output: Path) -> None:
    """Keep the end of an output that is too long. Its process appends, and so begins it again."""
    with contextlib.suppress(OSError), output.open("r+b") as file:
        if file.seek(0, os.SEEK_END) > OUTPUT_MOST:
            file.seek(-OUTPUT_KEPT, os.SEEK_END)
            output.with_name(f"{output.name}.1").write_bytes(file.read()[-OUTPUT_KEPT:])
            file.truncate(0)


async def _end(process: asyncio.subprocess.Process, ended: asyncio.Future[int]) -> None:
    """SIGTERM, patience, SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if ended.done():
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        await asyncio.wait((ended,), timeout=STOP_S)


def _how(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"ended with exit status {status}"

"""A real ``steepest up`` in a process of its own, driven by the real command line, for tests from outside.

It owns starting, killing and awaiting; nothing in it waits for a length of time where it could wait for an event.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from click.testing import CliRunner

from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import StateFolder
from steepest.cli.main import main
from steepest.cli.pool.follow import first
from steepest.cli.pool.stored_pool import reading, records_to_end
from steepest.cli.system.shutdown import stop_all, stop_system
from steepest.errors import SteepestError, UndecodableError
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants import ALL, Audit, Status
from steepest.log.base import Record, TopicPartition
from steepest.runtime.decode import received

T = TypeVar("T")

STEEPEST = (sys.executable, "-c", "from steepest.cli.main import main; main(prog_name='steepest')")
"""The command line of this interpreter."""

NO_KEEPERS = {"STEEPEST_CLUSTER_SYSTEM_CHECKPOINTS": "false"}
"""Tests decide about jobs that cannot be moved, on machines with and without CRIU; those of keepers ask for them."""

CLUSTER = TopicPartition("cluster")
PATIENCE_S = 60.0


@contextlib.contextmanager
def ignored(number: signal.Signals) -> Iterator[None]:
    """What is started meanwhile begins with a signal ignored."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


class RunningSystem:
    """A state folder, and at most one system that runs on it.

    Attributes:
        output_lines: The lines that the newest system has printed so far, on both streams.
    """

    def __init__(self, state: Path, *options: str, env: dict[str, str] | None = None) -> None:
        """Options are those of ``steepest up``; ``env`` is added to the environment of all that is started."""
        self.state = state
        self.output_lines: list[str] = []
        self._options = options
        self._env = {**os.environ, **NO_KEEPERS, **(env or {})}
        self._process: subprocess.Popen[str] | None = None
        self._listener = threading.Thread()
        self._news = threading.Condition()
        self._silent = True
        self._is_down = False

    # --- the system itself -------------------------------------------------------------------------------------------

    def start(self, *options: str) -> None:
        """Start it, and wait until it follows its log; without options, a new folder is made with those of the class."""
        options = options if StateFolder(self.state).exists else self._options
        self.output_lines, self._silent, self._is_down = [], False, False
        self._process = subprocess.Popen(
            [*STEEPEST, "up", "--state", str(self.state), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._env,
        )
        self._listener = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
        self._listener.start()
        try:
            self.await_line("caught up")
        except BaseException:
            self.kill()
            raise

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                with self._news:
                    self.output_lines.append(line.rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._silent = True
            self._news.notify_all()

    def await_line(self, part: str) -> str:
        """The first line with this in it; fails if the system ends without having printed one."""
        with self._news:
            self._news.wait_for(lambda: self._silent or self._line(part) is not None, PATIENCE_S)
            line = self._line(part)
        assert line is not None, f"no line with {part!r} in {self.output_lines}"
        return line

    def _line(self, part: str) -> str | None:
        return next((line for line in self.output_lines if part in line), None)

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: it has no chance to say or write anything."""
        assert self._process is not None
        self._process.kill()
        self.wait()

    def wait(self) -> int:
        """Wait until it has ended, and give its exit status."""
        assert self._process is not None
        status = self._process.wait(PATIENCE_S)
        self._listener.join()
        return status

    def end(self) -> None:
        """Stop everything, however the test ended."""
        folder = StateFolder(self.state)
        try:
            if folder.exists and not self._is_down:
                with contextlib.suppress(SteepestError):
                    stop_system(folder)
                    asyncio.run(stop_all(folder, folder.read(), grace_s=0.2))
        finally:
            if self._process is not None:
                self.kill()

    # --- the command line ----------------------------------------------------------------------------------------------

    def call(self, command: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command on the folder."""
        done = subprocess.run(
            [*STEEPEST, command, "--state", str(self.state), *_small(command, arguments), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            env=self._env,
            cwd=cwd,
        )
        if command == "down" and "--keep-jobs" not in arguments:
            self._is_down = done.returncode == 0
        return done

    def ask(self, command: str, *arguments: str) -> Any:
        """Run a command that must succeed, with ``--json``, and give what it printed."""
        done = self.call(command, "--json", *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def submit(self, name: str, *command: str, options: tuple[str, ...] = ()) -> None:
        """Submit a job that must be admitted."""
        assert self.within("submit", "--name", name, *options, "--", *command)["state"] == "admitted"

    def job(self, name: str) -> dict[str, Any]:
        """A job as ``steepest jobs`` shows it."""
        found: dict[str, Any] = next(job for job in self.within("jobs", "--all") if job["job"] == name)
        return found

    def within(self, command: str, *arguments: str) -> Any:
        """As ``ask``, within this process: for commands that a test only needs, since a process takes 0.3 s to import."""
        done = CliRunner().invoke(
            main, [command, "--state", str(self.state), *_small(command, arguments), "--json", *arguments]
        )
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    # --- the log -------------------------------------------------------------------------------------------------------

    def events(self) -> list[Received[c.ClusterEvent]]:
        """The pool's log up to now."""
        return asyncio.run(self._events())

    async def _events(self) -> list[Received[c.ClusterEvent]]:
        async with reading(read_settings({"state_dir": self.state}, environ=self._env)) as (_, log):
            records = [record async for record in records_to_end(log, CLUSTER)]
        return [event for record in records if (event := _decoded(record)) is not None]

    def breaches(self) -> list[str]:
        """What the log shows to be broken of what must always hold."""
        audit = Audit(ALL)
        position = 0
        for event in self.events():
            for missing in range(position, event.offset):
                audit.skip(missing)  # it exists, and cannot be decoded
            audit.feed(event)
            position = event.offset + 1
        return [f"{each.checker}: {each.message}" for each in audit.verdicts() if each.status is Status.BROKEN]

    def await_event(self, wanted: Callable[[Received[c.ClusterEvent]], T | None], since: int = 0) -> T:
        """The first answer that an event from an offset on gives; fails where none does in time."""
        answer = self.look_for(wanted, since)
        assert answer is not None, f"it never happened; the system printed {self.output_lines}"
        return answer

    def await_moment(self, moment: Callable[[c.ClusterEvent], bool], since: int) -> int:
        """The offset behind a moment; on a busy machine the next moment may pass before the test sees it."""
        return self.await_event(lambda found: found.offset + 1 if moment(found.event) else None, since)

    def look_for(
        self, wanted: Callable[[Received[c.ClusterEvent]], T | None], since: int, patience_s: float = PATIENCE_S
    ) -> T | None:
        """Likewise; None where nothing gives an answer in time."""
        return asyncio.run(self._look_for(wanted, since, patience_s))

    async def _look_for(
        self, wanted: Callable[[Received[c.ClusterEvent]], T | None], since: int, patience_s: float
    ) -> T | None:
        async with reading(read_settings({"state_dir": self.state}, environ=self._env)) as (_, log):
            return await first(log, {CLUSTER: since}, wanted, patience_s)

    def await_end(self, job: str) -> c.JobEnded:
        """How a job ended."""
        return self.await_event(lambda found: _end(found.event, job))


def _small(command: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """What lets several jobs of a test run at once on a node of less than a core, unless the test says otherwise."""
    return ("--cpu", "0.05") if command == "submit" and "-f" not in arguments else ()


def _decoded(record: Record) -> Received[c.ClusterEvent] | None:
    try:
        return received(record)
    except UndecodableError:
        return None


def _end(event: c.ClusterEvent, job: str) -> c.JobEnded | None:
    return event if isinstance(event, c.JobEnded) and event.job == job else None

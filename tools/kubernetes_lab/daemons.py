"""The daemons of the lab: each with a log and a record of its process, so that a later command can stop it.

It owns starting, finding and ending them. It must never know what they do.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import psutil

from steepest.errors import ClusterError

STOP_S = 20.0
"""A daemon that has not left after SIGTERM by then is killed."""


class DaemonRecord(msgspec.Struct, frozen=True, kw_only=True):
    """``NAME.json``: the process of a daemon.

    Attributes:
        pid: Its process.
        created: When that began, in seconds, so that another process of the same pid is not mistaken for it.
    """

    pid: int
    created: float


class Daemons:
    """The daemons that have their records in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def start(self, name: str, command: Sequence[str], *, env: Mapping[str, str]) -> None:
        """Start a daemon, by its absolute path, unless it runs already; it outlives this process."""
        if self.process(name) is not None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        log = (os.POSIX_SPAWN_OPEN, 1, str(self.log(name)), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), log, (os.POSIX_SPAWN_DUP2, 1, 2)]
        pid = os.posix_spawn(command[0], list(command), dict(env), file_actions=actions, setsid=True)
        record = DaemonRecord(pid=pid, created=psutil.Process(pid).create_time())
        self._record(name).write_bytes(msgspec.json.encode(record))

    def process(self, name: str) -> psutil.Process | None:
        """The daemon's process, if it runs."""
        with contextlib.suppress(FileNotFoundError, msgspec.DecodeError, psutil.Error):
            record = msgspec.json.decode(self._record(name).read_bytes(), type=DaemonRecord)
            process = psutil.Process(record.pid)
            if abs(process.create_time() - record.created) < 1.0 and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None

    def refuse_unless_runs(self, name: str) -> None:
        """Raise the end of its log if a daemon has ended.

        Raises:
            ClusterError: It does not run.
        """
        if self.process(name) is None:
            tail = self.log(name).read_text(errors="replace")[-2000:]
            raise ClusterError(f"{name} has ended: {tail}", code="lab-failed")

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a daemon that runs."""
        if (process := self.process(name)) is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def stop(self, name: str) -> None:
        """End a daemon; returns when its process is gone."""
        process = self.process(name)
        self.signal(name, signal.SIGTERM)
        if process is not None and not _has_ended(process, STOP_S):
            self.signal(name, signal.SIGKILL)
            _has_ended(process, STOP_S)
        self._record(name).unlink(missing_ok=True)

    def kill(self, name: str) -> None:
        """Kill a daemon as in a crash; returns when its process is gone."""
        if (process := self.process(name)) is not None:
            self.signal(name, signal.SIGKILL)
            _has_ended(process, STOP_S)

    def log(self, name: str) -> Path:
        """What a daemon prints."""
        return self._folder / f"{name}.log"

    def _record(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def _has_ended(process: psutil.Process, patience_s: float) -> bool:
    """Whether it is gone in time: only then are its ports free, also where it was a child of this process."""
    try:
        process.wait(patience_s)
    except psutil.TimeoutExpired:
        return False
    return True

"""The processes of a job, as its keeper has them below it: how long they ran, which go on, and how they end."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from steepest.keeper import kernel, processes

_DEATH_S, _LOOK_S = 10.0, 0.005


class Tree:
    """All processes of the keeper's namespace but the keeper itself.

    Attributes:
        root: The first one; 0: there is none.
        stopped: Those that stood still before a save, which are not to be continued.
        ran_s: How long they ran until they were stopped last, over all incarnations.
    """

    def __init__(self) -> None:
        self.root = 0
        self.stopped: list[int] = []
        self.ran_s = 0.0
        self._since = time.monotonic()

    def now_s(self) -> float:
        """How long they have run by now."""
        return self.ran_s + time.monotonic() - self._since

    def note(self) -> None:
        """Note what a save or its refusal must leave as it is. They are stopped next."""
        self.stopped = processes.stopped(processes.others())
        self.ran_s, self._since = self.now_s(), time.monotonic()

    def pids(self) -> list[int]:
        """Those that are no zombies."""
        return [each.pid for each in processes.others() if each.state != "Z"]

    def reap(self) -> int | None:
        """Take the ends of processes; the first one's status as from ``wait``, None while it lives."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return 1 << 8
            if pid == 0:
                return None
            if pid == self.root:
                return status

    def open_connections(self) -> None:
        """Let their connections go on, which a save has left in repair mode."""
        for pid in self.pids():
            sockets = [descriptor for descriptor, link in processes.links(pid) if link.startswith("socket:")]
            with contextlib.suppress(OSError):
                kernel.leave_repair(pid, sockets)

    def go_on(self) -> None:
        """Continue all but those that stood still before: also the ones that CRIU gave to process 1."""
        for pid in self.pids():
            if pid not in self.stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        self._since = time.monotonic()

    def kill(self) -> None:
        """Kill them all, until none is a zombie either: another image of the job needs the same process ids."""
        deadline = time.monotonic() + _DEATH_S
        while (left := processes.others()) and time.monotonic() < deadline:
            for each in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each.pid, signal.SIGKILL)
            self.reap()
            time.sleep(_LOOK_S)
        self.root = 0

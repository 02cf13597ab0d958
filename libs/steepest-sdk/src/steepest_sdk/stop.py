"""Owns SIGTERM: it sets a flag, which is read where the training can be stopped. It saves nothing itself."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

EXIT_STOPPED = 85
"""The exit status of a training that was asked to stop; 0 means complete."""


class StopSignal:
    """SIGTERM as a flag.

    Args:
        exit_immediately: Exit when the signal comes instead of setting the flag; for a process that saves nothing.
    """

    def __init__(self, *, exit_immediately: bool) -> None:
        self.requested = False
        self._exit_immediately = exit_immediately
        self._before = signal.signal(signal.SIGTERM, self._on_signal)
        # A data loader's forked worker would inherit the handler and ignore the SIGTERM that should end it. The signal is
        # blocked during the fork, because a signal that reaches the child before it has reset the handler would be lost.
        # Each thread has a mask of its own, and several may fork at the same time.
        self._masks = threading.local()
        os.register_at_fork(before=self._hold_back, after_in_parent=self._let_through, after_in_child=self._disown)

    def take(self) -> None:
        """Installs its handler again, in place of another one."""
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
        if self._exit_immediately:
            raise SystemExit(EXIT_STOPPED)

    def _hold_back(self) -> None:
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _let_through(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)

    def _disown(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if self._before is None else self._before)
        self._let_through()

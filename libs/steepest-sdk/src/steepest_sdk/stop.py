"""Owns SIGTERM: "save and leave" becomes a flag, read where the training can be left. It saves nothing itself."""

from __future__ import annotations

import os
import signal
from types import FrameType

EXIT_STOPPED = 85
"""The exit status of a training that was told to leave; 0 means complete."""


class StopSignal:
    """SIGTERM as a flag.

    Args:
        at_once: Leave when the signal comes rather than raise the flag: right where there is nothing to save.
    """

    def __init__(self, *, at_once: bool) -> None:
        self.requested = False
        self._at_once = at_once
        self._before = signal.signal(signal.SIGTERM, self._on_signal)
        # A data loader's forked worker would inherit the handler and outlive the SIGTERM that should end it. The
        # signal is held back while it forks, for a new process forgets what reached it before it has a handler.
        self._mask: set[int] = set()
        os.register_at_fork(before=self._hold_back, after_in_parent=self._let_through, after_in_child=self._disown)

    def take(self) -> None:
        """Becomes the signal's handler again, if another one was put in its place."""
        signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
        if self._at_once:
            raise SystemExit(EXIT_STOPPED)

    def _hold_back(self) -> None:
        self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}))

    def _let_through(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _disown(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if self._before is None else self._before)
        self._let_through()

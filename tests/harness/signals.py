"""Tests' children start with the default signal handlers, even if pytest ignores some signals.

A shell starts background jobs with SIGINT and SIGQUIT ignored, nohup with SIGHUP ignored, and a process inherits what is
ignored: no interrupt would ever reach what a test starts.
"""

from __future__ import annotations

import signal

PYTHON_S_OWN = {signal.SIGPIPE, getattr(signal, "SIGXFSZ", signal.SIGPIPE)}
"""Python itself ignores these, and ``subprocess`` gives them back."""


def pytest_configure() -> None:
    """Replace each ignored signal by an empty handler: children inherit ignored signals, but not handlers."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals() - PYTHON_S_OWN:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _ignore)


def _ignore(*_: object) -> None:
    """Do nothing."""

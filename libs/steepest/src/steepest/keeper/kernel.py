"""The system calls that Python has no names for: namespaces, mounts, the next process id.

Sources: the manual pages unshare(2), mount(2), prctl(2), and the kernel's document on ``ns_last_pid``.
"""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

FIRST_PID = 300
"""The job's lowest process id. The keeper and CRIU have lower ones, so no restored process wants the id of one of them."""

_NEW_MOUNTS, _NEW_IPC, _NEW_PIDS = 0x20000, 0x8000000, 0x20000000
_RECURSIVE_SLAVE = 0x4000 | 0x80000
_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _call(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def leave_namespaces() -> None:
    """The next child is process 1 of a PID namespace of its own; mounts and IPC objects are this process's own from now on.

    Raises:
        OSError: This process may not.
    """
    _call(_libc.unshare(_NEW_PIDS | _NEW_MOUNTS | _NEW_IPC))
    _call(_libc.mount(b"none", b"/", None, _RECURSIVE_SLAVE, None))


def show_own_processes() -> None:
    """Mount a ``/proc`` of this PID namespace."""
    _call(_libc.mount(b"proc", b"/proc", b"proc", _NOSUID_NODEV_NOEXEC, None))


def die_with_parent() -> None:
    """This process is killed once its parent dies; of process 1 of a namespace, that kills all others there."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def begin_pids_at(least: int) -> None:
    """The next process gets an id of at least ``least``. Where ``/proc/sys`` is read-only, the lower ids are used up."""
    try:
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(least - 1), encoding="ascii")
    except OSError:
        pid = 0
        while pid < least - 1:
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)


def join_group(group: str | None) -> None:
    """Move this process into a control group; None: it stays where it is."""
    if group is not None:
        Path(group, "cgroup.procs").write_text("0", encoding="ascii")

"""The system calls that Python has no names for: namespaces, mounts, capabilities, the next process id.

Sources: the manual pages unshare(2), mount(2), prctl(2), capabilities(7), and the kernel's document on ``ns_last_pid``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
from collections.abc import Iterable
from pathlib import Path

CAPABILITIES = ("CHECKPOINT_RESTORE", "SYS_PTRACE", "SETPCAP", "SETGID", "SETUID", "CHOWN")
"""What a keeper in a container needs: the first four for CRIU, the last two only until it has its user."""

GROUP = 65_533
"""The group of keepers in containers: only they may write what they restore. The job, which has their user, is not in it."""

FIRST_PID = 300
"""The job's lowest process id. The keeper and CRIU have lower ones, so no restored process wants the id of one of them."""

_NEW_MOUNTS, _NEW_IPC, _NEW_PIDS = 0x20000, 0x8000000, 0x20000000
_RECURSIVE_SLAVE = 0x4000 | 0x80000
_BIND = 4096
_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_PR_SET_PDEATHSIG, _PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT = 1, 8, 24, 47
_AMBIENT_RAISE, _AMBIENT_CLEAR_ALL = 2, 4
_CAPABILITIES_3 = 0x20080522
_KEPT = (40, 21, 19, 8, 6)  # CHECKPOINT_RESTORE, SYS_ADMIN, SYS_PTRACE, SETPCAP, SETGID
_PIDFD_GETFD = 438
_MOVED_TO = 0x80
_TCP_REPAIR, _OFF_WITHOUT_PROBE = 19, -1
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


def show_instead(file: Path, path: str) -> None:
    """Mount a file over another one, in this mount namespace alone.

    Raises:
        OSError: The path is not there.
    """
    _call(_libc.mount(os.fsencode(file), os.fsencode(path), None, _BIND, None))


def die_with_parent() -> None:
    """This process is killed once its parent dies; of process 1 of a namespace, that kills all others there."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def close_to_job(folder: Path) -> None:
    """Let none but root and keepers enter a folder of this container: below it is what the keeper runs and restores.

    Raises:
        OSError: This process may not.
    """
    os.chown(folder, 0, GROUP)
    folder.chmod(0o710)


def become_user(user: int, group: int) -> None:
    """Become a user who has what CRIU needs of root's rights, and so do the programs that it runs.

    CRIU must have the job's user: to ask for the limits of another one's process needs one more right. Where the output goes
    belongs to that user too, because CRIU opens it again.

    Raises:
        OSError: This process may not.
    """
    for descriptor in (1, 2):
        os.fchown(descriptor, user, group)
    has = int(
        next(line for line in Path("/proc/self/status").read_text().splitlines() if "CapEff" in line).split()[1], 16
    )
    _prctl(_PR_SET_KEEPCAPS, 1)
    os.setgroups([GROUP])
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    kept = [number for number in _KEPT if has >> number & 1]
    _set_capabilities(sum(1 << number for number in kept))
    for number in kept:
        _prctl(_PR_CAP_AMBIENT, _AMBIENT_RAISE, number)


def give_up_rights() -> None:
    """What this process runs has its user's rights alone, as long as it may not get new ones."""
    os.setgroups([])
    _prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL)
    for number in range(64):
        _prctl(_PR_CAPBSET_DROP, number)
    _set_capabilities(0)


def _prctl(*words: int) -> None:
    _libc.prctl(*(ctypes.c_ulong(word) for word in (*words, 0, 0, 0, 0)[:5]))


def _set_capabilities(wanted: int) -> None:
    low, high = wanted & 0xFFFFFFFF, wanted >> 32
    header, data = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0), (ctypes.c_uint32 * 6)(*[low] * 3, *[high] * 3)
    _call(_libc.capset(header, data))


def leave_repair(pid: int, descriptors: Iterable[int]) -> None:
    """Let the TCP connections of a process go on: CRIU leaves them in repair mode, in which nothing can be received.

    The kernel takes ``SO_REUSEADDR`` from a connection that leaves this mode. Without it, what lingers of one whose process
    is killed keeps its server's port from the next incarnation for a minute.

    Raises:
        OSError: The process has ended.
    """
    process = os.pidfd_open(pid)
    try:
        for number in descriptors:
            copy = _libc.syscall(_PIDFD_GETFD, process, number, 0)
            if copy >= 0:
                with socket.socket(fileno=copy) as own:
                    is_tcp = own.type == socket.SOCK_STREAM and own.family in {socket.AF_INET, socket.AF_INET6}
                    if is_tcp and own.getsockopt(socket.IPPROTO_TCP, _TCP_REPAIR):
                        own.setsockopt(socket.IPPROTO_TCP, _TCP_REPAIR, _OFF_WITHOUT_PROBE)
                        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    finally:
        os.close(process)


def watch(folder: str) -> list[int]:
    """A descriptor that becomes readable when a file is renamed into a folder; none where the kernel has no room for one."""
    number = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if number >= 0:
        _libc.inotify_add_watch(number, os.fsencode(folder), _MOVED_TO)
    return [number] if number >= 0 else []


def begin_pids_at(least: int) -> None:
    """The next process gets an id of at least ``least``.

    Where ``/proc/sys`` is read-only, as in a container, the ids below ``FIRST_PID`` are used up, and no more of them.
    """
    try:
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(least - 1), encoding="ascii")
    except OSError:
        pid = 0
        while pid < FIRST_PID - 1:
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)


def join_group(group: str | None) -> None:
    """Move this process into a control group; None: it stays where it is."""
    if group is not None:
        Path(group, "cgroup.procs").write_text("0", encoding="ascii")

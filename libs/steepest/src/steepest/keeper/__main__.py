"""Starts a keeper in namespaces of its own, and ends as the job does: ``python -I -S FOLDER ORDER``.

The first process stays in the namespace that it was started in. It passes SIGTERM on, waits, and ends as the job has: with
its status, or by its signal. With it dies the keeper, and with the keeper, by the kernel's guarantee, the whole namespace.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import resource
import signal
import sys
import termios
import traceback
from pathlib import Path
from typing import NoReturn

sys.path[0] = str(Path(__file__).absolute().parents[2])

from steepest.keeper import kernel  # noqa: E402 - isolated, Python knows no other way to this package
from steepest.keeper.keeper import JobLostError, Keeper  # noqa: E402
from steepest.keeper.order import KeeperOrder  # noqa: E402
from steepest.keeper.processes import wait_until  # noqa: E402

LOST = 86
"""Exit status of this process where the job could not be kept, for no fault of its own."""

_HEARD_S = 5.0
_SIGNALS = {signal.SIGTERM, signal.SIGCHLD}


def main() -> NoReturn:
    """Make the namespaces, wait for the job, and end as it does."""
    order = KeeperOrder.load(Path(sys.argv[1]))
    kernel.join_group(order.keeper_cgroup)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # a SIGTERM that comes too early waits until it can be passed on
    out, into = os.pipe()
    kernel.leave_namespaces()
    pid = os.fork()
    if pid == 0:
        os.close(out)
        _keep(order, into)
    os.close(into)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    os.waitpid(pid, 0)
    kind, _, rest = os.read(out, 4096).decode().partition(" ")
    if kind != "ended":
        _tell_supervisor(order, rest or "its keeper was killed")
        sys.exit(LOST)
    _end_as(int(rest))


def _keep(order: KeeperOrder, report: int) -> NoReturn:
    said = ""
    try:
        os.set_inheritable(report, False)  # noqa: FBT003 - it takes no keyword
        kernel.die_with_parent()
        out, into = os.pipe()
        os.set_blocking(into, False)
        signal.set_wakeup_fd(into, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        kernel.show_own_processes()
        keeper = Keeper(order, out)
        keeper.begin()
        said = f"ended {keeper.run()}"
    except JobLostError as error:
        said = f"lost {error}"
    except BaseException as error:  # noqa: BLE001 - the job dies with this process, and the reason is reported
        said = f"lost its keeper failed: {error!r}"
        traceback.print_exc()
    finally:
        os.write(report, said[:4000].encode())
        os._exit(0)


def _tell_supervisor(order: KeeperOrder, why: str) -> None:
    """Say that this end is not the job's own, and wait until that is read."""
    if order.orders is None:
        return
    with contextlib.suppress(OSError):
        pipe = os.open(order.orders, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        os.write(pipe, b"lost " + "_".join(why.split())[:300].encode() + b"\n")
        wait_until(lambda: _unread(pipe) == 0, _HEARD_S)


def _unread(pipe: int) -> int:
    left = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, left)
    return left[0]


def _end_as(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) != signal.SIGKILL else None
        os.kill(os.getpid(), os.WTERMSIG(status))
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()

"""Starts a keeper, and ends as its job does: ``python -I -S FOLDER ORDER [COMMAND ...]``.

A command here counts in place of the order's: in the pod of a user's own Job, Kubernetes has put variables into it.

The first process stays in the namespaces that it was started in. It passes SIGTERM on, waits, and ends as the job has: with
its status, or by its signal. With it dies the keeper, and with the keeper, by the kernel's guarantee, the whole namespace.
In a container, which is such a namespace, the first process is the keeper.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import NoReturn

sys.path[0] = str(Path(__file__).absolute().parents[2])

from steepest.keeper import kernel  # noqa: E402 - isolated, Python knows no other way to this package
from steepest.keeper.control import Control  # noqa: E402
from steepest.keeper.keeper import Keeper  # noqa: E402
from steepest.keeper.order import KeeperOrder  # noqa: E402
from steepest.keeper.processes import JobLostError  # noqa: E402

LOST = 86
"""Exit status of this process where the job could not be kept, for no fault of its own."""

_SIGNALS = {signal.SIGTERM, signal.SIGCHLD}


def main() -> NoReturn:
    """Keep the job to its end, and end as it does."""
    order = KeeperOrder.load(Path(sys.argv[1]))
    if sys.argv[2:]:
        order = order._replace(program=sys.argv[2], command=sys.argv[2:])
    control = Control(order.control)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # one that comes too early waits until it can be passed on
    if order.user is not None:
        kernel.close_to_job(Path(order.control).parent)
        kernel.become_user(*order.user)
        status = _keep(order)
        if status is None:
            os._exit(LOST)
        control.own_end()
        os._exit(_code(status))
    kernel.join_group(order.keeper_cgroup)
    out, into = os.pipe()
    kernel.leave_namespaces()
    pid = os.fork()
    if pid == 0:
        os.close(out)
        kernel.die_with_parent()
        kernel.show_own_processes()
        status = _keep(order)
        os.write(into, b"" if status is None else str(status).encode())
        os._exit(0)
    os.close(into)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    os.waitpid(pid, 0)
    said = os.read(out, 100)
    if not said:
        sys.exit(LOST)
    control.own_end()
    _end_as(int(said))


def _keep(order: KeeperOrder) -> int | None:
    """The job's status as from ``wait``; None: it is lost, and the reason is in the control folder."""
    try:
        out, into = os.pipe()
        os.set_blocking(into, False)
        signal.set_wakeup_fd(into, warn_on_full_buffer=False)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        keeper = Keeper(order, out)
        keeper.begin()
        return keeper.run()
    except JobLostError as error:
        why = str(error)
    except BaseException as error:  # noqa: BLE001 - the job dies with this process, and the reason is reported
        why = f"its keeper failed: {error!r}"
        traceback.print_exc()
    Control(order.control).lose(why)
    return None


def _code(status: int) -> int:
    """The exit code of a container, as a shell has it: its first process cannot end by a signal."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)


def _end_as(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL) if os.WTERMSIG(status) != signal.SIGKILL else None
        os.kill(os.getpid(), os.WTERMSIG(status))
    sys.exit(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()

"""The first moments of a job: from a fork of its keeper to its own program."""

from __future__ import annotations

import json
import os
import platform
import pwd
import signal
from typing import NoReturn

from steepest.keeper import kernel
from steepest.keeper.order import JOBS_ENVIRONMENT, KeeperOrder

_ROOTS_HOMES = frozenset({"/", "/root"})


def become_job(order: KeeperOrder, umask: int) -> NoReturn:
    """Turn this process, which the keeper has forked, into the job's first one."""
    try:
        os.setsid()
        kernel.join_group(order.cgroup)
        os.umask(umask)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # one of this mount namespace: CRIU finds no other
        os.closerange(3, 4096)
        for number in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        if order.user is not None:
            kernel.give_up_rights()
        if order.working_dir is not None:
            os.chdir(order.working_dir)
        os.execvpe(order.program, order.command, _environment(order))  # noqa: S606 - no shell on purpose
    except OSError as error:
        os.write(2, f"steepest: {error}\n".encode())
    finally:
        os._exit(127)


def _environment(order: KeeperOrder) -> dict[str, str]:
    """The job's environment. In a container the keeper has none of what the user says: that could change what it runs."""
    env = dict(os.environ)
    if JOBS_ENVIRONMENT in env:
        home = env.get("HOME", "/")
        home = _home() if home in _ROOTS_HOMES else home  # a runtime sets root's, unless another one is set
        own = {"HOME": home, "HOSTNAME": platform.node(), "PATH": env.get("PATH", os.defpath)}
        of_image = {name: value for name, value in env.items() if value}
        env = {**of_image, **own, **json.loads(env[JOBS_ENVIRONMENT])}
    if order.gang:
        env.setdefault("USE_LIBUV", "0")  # PyTorch's store of rank 0 opens an io_uring otherwise: CRIU cannot save it
    if order.restore is None:
        env.pop("STEEPEST_RESTORE", None)  # of an image that was not restored: the SDK could not read it
    return {name: value for name, value in env.items() if order.auto or not name.startswith("STEEPEST_")}


def _home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return os.sep

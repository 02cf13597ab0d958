"""Files with secrets: opened only where no other user can read or change them.

It owns that rule. A group may read such a file, because a Secret of Kubernetes is given to a pod's group.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from steepest.errors import InputError

_OTHERS = stat.S_IRWXO | stat.S_IWGRP


def read_secret(path: Path) -> str:
    """The text of a file.

    Raises:
        InputError: As :func:`refuse_shared`.
        OSError, UnicodeDecodeError: It cannot be read.
    """
    with path.open() as file:
        refuse_shared(path, os.fstat(file.fileno()))
        return file.read()


def refuse_shared(path: Path, status: os.stat_result, what: str = "has secrets") -> None:
    """Return only if a file or folder of this status is closed to other users.

    Raises:
        InputError: Others may read it, it belongs to one of them, or its group may change it.
    """
    mode = stat.S_IMODE(status.st_mode)
    if mode & _OTHERS:
        raise InputError(
            f"{path} {what}, and other users may read or change it (mode {mode:04o})",
            code="open-secret",
            hint=f"close it: chmod 600 {path}",
        )
    refuse_anothers(path, status, what)


def refuse_anothers(path: Path, status: os.stat_result, what: str) -> None:
    """Return only if a file or folder of this status belongs to this user, or to root.

    Raises:
        InputError: It belongs to another one, who can change it.
    """
    if status.st_uid not in {os.geteuid(), 0}:
        raise InputError(
            f"{path} {what}, and belongs to another user (uid {status.st_uid})",
            code="open-secret",
            hint=f"name another, or take it over: chown {os.geteuid()} {path}",
        )

"""Files with secrets: opened only where no other user can read or change them.

It owns that rule. A group may read such a file, because a Secret of Kubernetes is given to a pod's group.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from steepest.errors import InputError

OTHERS = stat.S_IRWXO | stat.S_IWGRP


def read_secret(path: Path) -> str:
    """The text of a file.

    Raises:
        InputError: As :func:`refuse_shared`.
        OSError, UnicodeDecodeError: It cannot be read.
    """
    with path.open() as file:
        refuse_shared(path, os.fstat(file.fileno()))
        return file.read()


def refuse_shared(path: Path, status: os.stat_result, what: str = "has secrets", others: int = OTHERS) -> None:
    """Return only if a file or folder of this status belongs to this user or root, and gives others none of these rights.

    Raises:
        InputError: It does not; the message begins with the path and ``what``.
    """
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in {os.geteuid(), 0}:
        why, hint = f"belongs to another user (uid {status.st_uid})", f"take it over: chown {os.geteuid()} {path}"
    elif mode & others:
        why, hint = f"other users may read or change it (mode {mode:04o})", f"close it: chmod 600 {path}"
    else:
        return
    raise InputError(f"{path} {what}, and {why}", code="open-secret", hint=hint)

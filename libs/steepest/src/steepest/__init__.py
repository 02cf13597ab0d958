"""Steepest schedules deep-learning training jobs by how fast they still learn.

::

    import pandas
    import steepest

    pool = steepest.connect()                       # .steepest in this folder, or STEEPEST_STATE_DIR
    job = pool.submit(["python", "train.py"], cpu=2)
    pool.wait(job)
    pandas.DataFrame(pool.jobs())
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steepest.cli.pool.connection import Connection


def connect(where: str | os.PathLike[str] | None = None, *, token: str = "", pool: str | None = None) -> Connection:
    """The installation of this machine, or the one that is named.

    Args:
        where: A state folder, or a gateway: ``http://…`` or ``kube:[CONTEXT][/NAMESPACE]``. None: as the command line
            finds it (``STEEPEST_CLIENT_SERVER``, ``STEEPEST_STATE_DIR``, or ``.steepest`` here).
        token: What a gateway knows its caller by; empty: ``STEEPEST_CLIENT_TOKEN``, or the folder's own.
        pool: A pool; None: the first.

    Raises:
        InputError: There is no installation there.
    """
    from steepest.cli.pool.connection import Connection  # noqa: PLC0415 - importing the package costs nothing

    return Connection(where, token, pool)

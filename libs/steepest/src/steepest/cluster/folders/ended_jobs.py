"""Retention of ended jobs: keeps the output and the checkpoints of the newest ones.

It owns which folders of ``ended/`` are removed. It must never know jobs that have not ended. Ages come from the folders' own
times and only protect new folders: a wrong clock never removes a folder that is within the bounds.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import msgspec

from steepest.events.common import Count, Positive

SPARED_S = 86_400.0
"""A job that ended within the last day is kept, even beyond the bounds."""

FILES_COUNTED = 100_000
"""Files of a job whose sizes are summed: a job with millions of files must not delay the sweep."""

GIB = 2**30


class Retention(msgspec.Struct, frozen=True):
    """How much is kept.

    Attributes:
        jobs: Number of jobs that are over.
        gib: Their total disk usage, in GiB.
        checkpoints_gib: Disk usage of the checkpoints of the others, of a namespace on Kubernetes, from which on no new job
            starts there; 0: any.
    """

    jobs: Positive = 1_000
    gib: Positive = 100
    checkpoints_gib: Count = 0


def sweep(ended: Path, retention: Retention) -> list[str]:
    """Remove the jobs beyond the bounds and return their names. A folder that cannot be removed stays.

    Raises:
        OSError: ``ended`` cannot be listed.
    """
    import shutil  # noqa: PLC0415 - it takes long to import, and commands only read the bounds

    folders = sorted(_times(ended), reverse=True)
    kept_bytes, spared_from, gone = 0, time.time() - SPARED_S, []
    for number, (at_s, name) in enumerate(folders):
        kept_bytes += bytes_of(ended / name)
        if at_s < spared_from and (number >= retention.jobs or kept_bytes > retention.gib * GIB):
            gone.append(name)
            with contextlib.suppress(OSError, RecursionError):
                shutil.rmtree(ended / name, ignore_errors=True)
    return gone


def _times(ended: Path) -> list[tuple[float, str]]:
    """The time at which each job was retired, and its folder's name."""
    with os.scandir(ended) as found:
        return [(one.stat().st_mtime, one.name) for one in found if one.is_dir(follow_symlinks=False)]


def bytes_of(folder: Path) -> int:
    """A folder's disk usage; links are not followed."""
    total = count = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_blocks * 512  # noqa: PTH118 - there may be many
        count += len(names)
        if count > FILES_COUNTED:
            break
    return total

"""What stays of jobs that are over: what the newest of them printed and saved.

It owns which folders of ``ended/`` go. It must never know jobs that are not over. Ages are of the folders' own times, and
only spare what is new: a clock that is wrong removes nothing beyond the bounds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

import msgspec

from steepest.events.common import Positive

SPARED_S = 86_400.0
"""Nothing that ended within a day goes, however much there is."""

FILES_COUNTED = 100_000
"""Files of a job whose sizes are added up: nobody should wait for one that has made millions."""

GIB = 2**30


class Retention(msgspec.Struct, frozen=True):
    """How much stays.

    Attributes:
        jobs: How many jobs.
        gib: What they take of the disk together, in GiB.
    """

    jobs: Positive = 1_000
    gib: Positive = 100


def sweep(ended: Path, retention: Retention) -> list[str]:
    """Remove what is beyond the bounds, and give its names. A folder that cannot be removed stays.

    Raises:
        OSError: Nobody can see what is there.
    """
    folders = sorted(_times(ended), reverse=True)
    kept_bytes, spared_from, gone = 0, time.time() - SPARED_S, []
    for number, (at_s, name) in enumerate(folders):
        kept_bytes += _bytes_of(ended / name)
        if at_s < spared_from and (number >= retention.jobs or kept_bytes > retention.gib * GIB):
            gone.append(name)
            with contextlib.suppress(OSError, RecursionError):
                shutil.rmtree(ended / name, ignore_errors=True)
    return gone


def _times(ended: Path) -> list[tuple[float, str]]:
    """When each job was retired, and its folder's name."""
    with os.scandir(ended) as found:
        return [(one.stat().st_mtime, one.name) for one in found if one.is_dir(follow_symlinks=False)]


def _bytes_of(folder: Path) -> int:
    """What a folder takes of the disk; links are not followed."""
    total = count = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_blocks * 512  # noqa: PTH118 - there may be many
        count += len(names)
        if count > FILES_COUNTED:
            break
    return total

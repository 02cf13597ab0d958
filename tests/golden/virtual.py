"""A golden recording of real services on nodes in memory, in virtual time: no load on the machine changes it.

Run ``python -m tests.golden.virtual FOLDER``; the folder must not exist.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

from tests.unit.steepest.test_in_a_system import NODES, play

from steepest.log.files.file_log import FileLog
from steepest.replay.record import record
from steepest.testing.system.rig import Rig
from steepest.testing.virtual_time import run_virtually


async def keep(folder: Path, work: Path) -> None:
    """Play the jobs of the policy ``steepest`` to their ends, and copy their log."""
    async with contextlib.aclosing(Rig(work, NODES)) as rig:
        await play(rig)
        into = FileLog(folder, rig.layout.partitions())
        async for _ in record(rig.log, into):
            pass
        await into.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        run_virtually(keep(Path(sys.argv[1]), Path(work)))

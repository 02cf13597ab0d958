"""A golden recording of real services on nodes in memory, in virtual time: no load on the machine changes it.

Run ``python -m tests.golden.virtual NAME FOLDER``; the folder must not exist.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

from tests.harness.system.rig import Rig
from tests.harness.virtual_time import run_virtually
from tests.unit.policies import test_limits_in_a_system
from tests.unit.steepest import test_in_a_system
from tests.unit.steepest.devices import test_devices_in_a_system

from steepest.log.files.file_log import FileLog
from steepest.replay.record import record

PLAYS = {
    "steepest": (test_in_a_system.play, test_in_a_system.NODES),
    "devices": (test_devices_in_a_system.play, test_devices_in_a_system.NODES),
    "queue-limits": (test_limits_in_a_system.play, test_limits_in_a_system.NODES),
}
"""By the golden's name."""


async def keep(name: str, folder: Path, work: Path) -> None:
    """Play a golden's jobs to their ends, and copy their log."""
    play, nodes = PLAYS[name]
    async with contextlib.aclosing(Rig(work, nodes)) as rig:
        await play(rig)
        into = FileLog(folder, rig.layout.partitions())
        async for _ in record(rig.log, into):
            pass
        await into.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        run_virtually(keep(sys.argv[1], Path(sys.argv[2]), Path(work)))

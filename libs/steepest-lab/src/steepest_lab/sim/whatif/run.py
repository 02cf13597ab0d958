"""Runs of a what-if: one recording, several policies and seeds, in parallel."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from steepest.log.files.file_log import FileLog
from steepest_lab.sim.result import SimulationResult
from steepest_lab.sim.whatif.history import RecordedPool, read_history
from steepest_lab.sim.whatif.play import play_on


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """The recording to continue, and how.

    Attributes:
        recording: Its folder.
        position: Of its pool's log; None: the end.
        policy: Of :data:`steepest_lab.sim.policies.LIVE`, or ``as recorded``.
    """

    recording: Path
    position: int | None
    policy: str
    seed: int


def what_if(run: WhatIf) -> SimulationResult:
    """Read the recording and play it on.

    Raises:
        InputError, RecordingError, LogVersionError: As :func:`read_history` and :func:`play_on`.
    """
    return play_on(asyncio.run(_read(run)), run.policy, run.seed)


async def _read(run: WhatIf) -> RecordedPool:
    log = FileLog.open(run.recording, read_only=True)
    try:
        return await read_history(log, run.position)
    finally:
        await log.close()

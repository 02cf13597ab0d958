"""A recording's pools against the invariants. It must never know what a checker looks at, or how a verdict is shown."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from steepest.cli.commands.replay import log_folder
from steepest.cli.pool.stored_pool import records_to_end
from steepest.errors import InputError, UndecodableError
from steepest.invariants import AnnouncedParameters, Audit, all_with
from steepest.invariants.verdict import Verdict
from steepest.log.base import TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.runtime.decode import received


class CheckedPool(msgspec.Struct, kw_only=True):
    """The findings in one partition of ``cluster``.

    Attributes:
        pool: The pool's name; empty where no record says it.
        unreadable: Offsets of records that are no events; they were passed over, as every reader does.
    """

    partition: int
    pool: str = ""
    records: int = 0
    unreadable: list[int] = msgspec.field(default_factory=list)
    verdicts: list[Verdict] = msgspec.field(default_factory=list)


async def check_pools(recording: Path) -> list[CheckedPool]:
    """The findings in each partition of ``cluster``.

    Raises:
        SteepestError: The recording cannot be read, or its first records are missing.
    """
    log = FileLog.open(log_folder(recording), read_only=True)
    try:
        pools, watched = await log.partitions("cluster"), await _watched(log)
        return [await _audit(log, at, watched) for at in pools]
    finally:
        await log.close()


async def _watched(log: FileLog) -> AnnouncedParameters:
    """The grounds on which jobs were judged; unknown where a recording has no losses."""
    watched = AnnouncedParameters()
    for at in await log.partitions("loss") if "loss" in log.topics else ():
        async for record in records_to_end(log, at):
            with contextlib.suppress(UndecodableError):
                watched.feed(received(record))
    return watched


async def _audit(log: FileLog, at: TopicPartition, watched: AnnouncedParameters) -> CheckedPool:
    """One pool's log from its first record to what is its end now.

    Raises:
        InputError: Its first record is not there.
    """
    if begin := await log.begin(at):
        raise InputError(
            f"the recording of {at} begins at {begin}: what holds from there on depends on what came before",
            code="offset-missing",
            hint="check a recording that was begun before the first records were removed",
        )
    audit, pool = Audit(all_with(watched)), CheckedPool(partition=at.partition)
    async for record in records_to_end(log, at):
        pool.records += 1
        pool.pool = pool.pool or record.key
        try:
            audit.feed(received(record))
        except UndecodableError:
            pool.unreadable.append(record.offset)
            audit.skip(record.offset)
    pool.verdicts = audit.verdicts()
    return pool

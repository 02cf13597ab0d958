"""Topics copied to a recording: same partitions, same offsets, same bytes.

It owns copying, going on where a recording ends, and putting a new recording in the place of one that is there. It must
never know what a record's value means.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from steepest.errors import InputError, LogEpochError, LogUnavailableError
from steepest.log.base import Log, NewRecord, Record, TopicPartition
from steepest.log.files.file_log import FileLog


async def record(source: Log, into: FileLog, *, follow: bool = False) -> AsyncIterator[int]:
    """Copy the records of the source's topics that the recording lacks; yield the number copied after each batch.

    What comes meanwhile is left for the next call, unless it is followed. The topics' ends are looked up in their order,
    that of decisions first: so a recording of a system that runs has all that they were decided about.

    Args:
        source: Any log that has the recording's topics.
        into: The recording; it may be new, or one of the same log that ends earlier.
        follow: Go on with what comes, without end.

    Raises:
        InputError: The recording is of another log, or the source does not have the records any more that come next.
        LogUnavailableError: The source gives nothing, or the recording takes nothing.
    """
    partitions = [at for topic in into.topics for at in await into.partitions(topic)]
    start = {at: await into.end(at) for at in partitions}
    ends = {at: await source.end(at) for at in partitions}
    await _check_same(source, into, start, ends)
    copied, left = 0, {at for at in partitions if start[at] < ends[at]}
    reader = source.reader(start)
    try:
        while left or follow:
            records = await reader.poll()
            if not follow:
                records = [one for one in records if one.offset < ends[one.at]]
            _check_next(records, start)
            await into.append([as_new(one) for one in records])
            left -= {at for at in left if start[at] >= ends[at]}
            copied += len(records)
            yield copied
    except LogEpochError as error:
        raise InputError(f"nothing can be recorded from here: {error}", hint=error.hint) from error
    finally:
        await reader.close()


async def begins_in(source: Log, partitions: Mapping[str, int]) -> Mapping[str, int]:
    """Where a recording of these topics has to begin, as :class:`FileLog` takes it: with the oldest records left.

    Raises:
        LogUnavailableError: The source gives nothing.
    """
    return {str(at): await source.begin(at) for topic in partitions for at in await source.partitions(topic)}


def as_new(record: Record) -> NewRecord:
    """A record as it was appended."""
    return NewRecord(to=record.at, key=record.key, value=record.value, at_ms=record.at_ms, headers=record.headers)


def _check_next(records: Sequence[Record], start: dict[TopicPartition, int]) -> None:
    """A recording counts its records; one with a hole would give all that follow another offset."""
    for one in records:
        if one.offset != start[one.at]:
            raise InputError(f"{one.at} has no record {start[one.at]}: the next one is {one.offset}", code="hole")
        start[one.at] = one.offset + 1


async def _check_same(
    source: Log, into: FileLog, start: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> None:
    for at, recorded in start.items():
        if recorded > await into.begin(at) and not (
            ends[at] >= recorded and await _is_same(source, into, at, recorded)
        ):
            raise InputError(
                f"{into.folder} is a recording of another log: {at} is not its continuation",
                hint="record to a new folder, or put a new recording in its place with --from-beginning",
            )


async def _is_same(source: Log, into: FileLog, at: TopicPartition, recorded: int) -> bool:
    """The first record of a partition is its identity; where retention has removed it, the last recorded one has to do.

    Raises:
        InputError: That is gone as well, and with it perhaps some that come next.
    """
    try:
        shared = await _record_at(source, at, await into.begin(at))
    except LogEpochError:
        try:
            shared = await _record_at(source, at, recorded - 1)
        except LogEpochError as error:
            raise InputError(f"{into.folder} cannot be gone on with: {error}", code="hole", hint=error.hint) from error
    return as_new(shared) == as_new(await _record_at(into, at, shared.offset))


async def _record_at(log: Log, at: TopicPartition, offset: int) -> Record:
    reader = log.reader({at: offset})
    try:
        while True:
            for one in await reader.poll(max_records=1):
                return one
    finally:
        await reader.close()


# --- a new recording in the place of another -----------------------------------------------------------------------------


async def replace_recording(source: Log, folder: Path, partitions: Mapping[str, int]) -> AsyncIterator[int]:
    """Copy all that is in the source's topics, and put it in the place of the recording that is in a folder.

    That one stays as it is until the copy is complete; where copying fails it stays for good. A death between the two
    renames that change them leaves the earlier one next to it, and the next call puts it back first.

    Args:
        source: Any log that has these topics.
        folder: Where the recording will be; there may be one already, or nothing.
        partitions: Topic to number of partitions.

    Raises:
        InputError: In the folder there is more than a recording, or the source does not have all records any more.
        LogUnavailableError: The source gives nothing, or nothing can be written.
    """
    folder, copy, before = _places(folder)
    try:
        into = FileLog(copy, partitions)
        try:
            async for copied in record(source, into):
                yield copied
        finally:
            await into.close()
        _change_places(folder, copy, before)
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _places(folder: Path) -> tuple[Path, Path, Path]:
    """The folder, where the copy is made, and where the earlier recording is while they change; no leftovers in either."""
    folder = folder.resolve()
    copy, before = (folder.with_name(f".{folder.name}.{what}") for what in ("new", "before"))
    if before.exists() and not folder.exists():
        before.rename(folder)
    _check_only_a_recording(folder)
    for left in (copy, before):
        shutil.rmtree(left, ignore_errors=True)
    return folder, copy, before


def _change_places(folder: Path, copy: Path, before: Path) -> None:
    try:
        if folder.exists():
            folder.rename(before)
        copy.rename(folder)
    except OSError as error:
        if before.exists() and not folder.exists():
            before.rename(folder)
        raise LogUnavailableError(f"{folder} cannot be replaced: {error.strerror}") from error
    shutil.rmtree(before, ignore_errors=True)


def _check_only_a_recording(folder: Path) -> None:
    """Refuse a folder with files that the recorder did not write, because it may not remove them."""
    for path in sorted(folder.rglob("*")):
        of_partition = path.suffix in {".jsonl", ".lock"} and path.stem.isdecimal() and path.parent.parent == folder
        of_recording = path.name in {"recording.json", "recording.lock"} and path.parent == folder
        if not (path.is_dir() or of_partition or of_recording):
            raise InputError(
                f"{folder} holds more than a recording: {path.relative_to(folder)}",
                hint="move it away, or record to a new folder",
            )

"""A log in files, which is also a recording. Several processes may read and append concurrently.

It owns coordination: locks, order, waking readers. It must never know the format of a line or of the folder.

Records that ``append`` has stored survive the death of any process, but not a power loss: single appends are not synced to
the disk, only ``sync`` and ``close`` do that (see ``docs/recordings.md``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from steepest.errors import InputError, LogUnavailableError
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.files.file_cursor import FileCursor
from steepest.log.files.file_lock import locked
from steepest.log.files.file_watch import FileWatch
from steepest.log.files.partition_file import PartitionFile
from steepest.log.files.record_lines import encode_line
from steepest.log.files.recording import (
    begin_of,
    change_recording,
    create_recording,
    lock_file,
    open_recording,
    partition_file,
)
from steepest.log.local_reader import Bell, LocalReader
from steepest.log.validation import check_position


class FileLog:
    """A ``steepest.log.base.Log`` in a folder. A handle belongs to one event loop."""

    def __init__(
        self,
        folder: Path | str,
        partitions: Mapping[str, int] | None = None,
        *,
        begins: Mapping[str, int] | None = None,
        read_only: bool = False,
    ) -> None:
        """Open the log in a folder, or create one there.

        Args:
            folder: The log's folder.
            partitions: Topic to number of partitions, to create the log if there is none; None: open the existing one.
            begins: Partition (as text) to the offset of its first record, for a log that is created; the default is 0.
            read_only: Whether the folder must not be changed.

        Raises:
            InputError: The partitions are invalid, or given together with ``read_only``.
            LogUnavailableError: The folder cannot be read or written.
            RecordingError: The folder is not a recording, has another version or other partitions, or a file is missing.
        """
        self.folder = Path(folder)
        self.read_only = read_only
        if partitions is None:
            self._topics = open_recording(self.folder)
        elif read_only:
            raise InputError("a read-only log cannot be created", hint="Omit the partitions.")
        else:
            self._topics = create_recording(self.folder, partitions, begins)
        self._bell = Bell()
        self._watch = FileWatch(self._bell)
        self._files: dict[TopicPartition, PartitionFile] = {}
        self._appended_to: dict[TopicPartition, None] = {}
        self._closed = False

    @classmethod
    def open(cls, folder: Path | str, *, read_only: bool = False) -> FileLog:
        """Open the existing log in a folder.

        Raises:
            LogUnavailableError: The folder cannot be read.
            RecordingError: The folder is not a recording, has another version, or a file is missing.
        """
        return cls(folder, read_only=read_only)

    @property
    def topics(self) -> Mapping[str, int]:
        """Topic to number of partitions."""
        return self._topics.counts

    async def append(self, records: Sequence[NewRecord]) -> Sequence[int]:
        """See ``steepest.log.base.Log.append``. Partitions are written one after the other, each in one write.

        Raises:
            InputError: A record is invalid, or the log is read-only; nothing is stored.
            LogEpochError: A file was removed or replaced.
            LogUnavailableError: Some are not stored; of each partition, the stored ones are the first of the call.
        """
        self._check_open()
        if self.read_only:
            raise InputError(f"{self.folder} was opened read-only", hint="Open it without read_only to append.")
        self._topics.check_records(records)
        indices: dict[TopicPartition, list[int]] = {}
        for index, record in enumerate(records):
            indices.setdefault(record.to, []).append(index)
        offsets = [0] * len(records)
        for at, mine in indices.items():
            first = await self._append_to(at, [records[index] for index in mine])
            for step, index in enumerate(mine):
                offsets[index] = first + step
        return offsets

    async def end(self, at: TopicPartition) -> int:
        """See ``steepest.log.base.Log.end``. The first call has to count the existing records.

        Raises:
            InputError: The log has no such partition.
            LogEpochError: The file was removed or replaced.
            LogUnavailableError: It cannot be read.
        """
        return (await self._scanned(at)).records

    async def begin(self, at: TopicPartition) -> int:
        """See ``steepest.log.base.Log.begin``.

        Raises:
            InputError: The log has no such partition.
        """
        self._check_open()
        self._topics.check(at)
        return self._file(at).begin

    async def kept_from(self, at: TopicPartition, since_ms: int, most_bytes: float) -> int:
        """The first offset that is kept by age and by size.

        Args:
            at: The partition.
            since_ms: Its first record that was observed then or later is kept.
            most_bytes: The bytes of its newest records that are kept, and up to two MiB more.

        Raises:
            As ``end``.
        """
        file = await self._scanned(at)
        large, old, reader = file.offset_near(file.size - most_bytes), file.begin, self.reader({at: file.begin})
        while (records := await reader.poll(timeout_s=0)) and old == records[0].offset:
            old += next((step for step, one in enumerate(records) if one.at_ms >= since_ms), len(records))
        await reader.close()
        return max(large, old)

    async def trim(self, at: TopicPartition, before: int) -> None:
        """Permanently remove the records of a partition below an offset, for all processes that have the log open.

        Raises:
            InputError: The log has no such partition.
            LogEpochError: It has no such offset.
            LogUnavailableError: The disk is full, or another process holds the partition's lock; nothing is removed.
        """
        from steepest.aio import uncancelled  # noqa: PLC0415 - a command trims nothing, and starts sooner

        file = await self._scanned(at)
        check_position(at, before, file.begin, file.records)
        if before == file.begin:
            return
        async with locked(lock_file(self.folder, at)):
            try:
                change_recording(self.folder, begins={str(at): before})
                await uncancelled(asyncio.to_thread(file.trim, before))  # a thread goes on, and must have the lock
            except OSError as error:
                raise LogUnavailableError(f"{file.path}: cannot be trimmed: {error.strerror}") from error
        self._bell.ring(at)

    async def sync(self, partitions: Iterable[TopicPartition]) -> None:
        """See ``steepest.log.base.Log.sync``: this includes records that other processes appended.

        Raises:
            InputError: The log has no such partition.
            LogUnavailableError: Some records may not be on the disk, or the log was closed.
        """
        for at in partitions:
            self._check_open()
            self._topics.check(at)
            await asyncio.to_thread(self._file(at).sync)

    async def partitions(self, topic: str) -> Sequence[TopicPartition]:
        """See ``steepest.log.base.Log.partitions``.

        Raises:
            InputError: The log has no such topic.
        """
        return self._topics.of(topic)

    def reader(self, start: Mapping[TopicPartition, int]) -> LocalReader:
        """See ``steepest.log.base.Log.reader``. Within the event loop only.

        Raises:
            InputError: A partition that the log does not have, or a negative offset.
            LogUnavailableError: A file cannot be opened.
        """
        self._check_open()
        self._topics.check_start(start)
        files = {at: self._file(at) for at in start}
        cursors = {at: FileCursor(files[at], offset, warn_torn=self.read_only) for at, offset in start.items()}

        def watch() -> float:
            for at, file in files.items():
                self._watch.add(at, file.path)
            return self._watch.recheck_s

        return LocalReader(cursors, self._bell, watch=watch)

    async def close(self) -> None:
        """Sync appended records to the disk and close the files; readers raise an error from now on.

        Raises:
            LogUnavailableError: Some records may not be on the disk; the log is closed all the same.
        """
        if self._closed:
            return
        self._closed = True
        await self._watch.close()
        try:
            for at in tuple(self._appended_to):
                await asyncio.to_thread(self._files[at].sync)
        finally:
            for file in self._files.values():
                file.close()
            self._bell.ring_all()

    async def _append_to(self, at: TopicPartition, records: Sequence[NewRecord]) -> int:
        file = await self._scanned(at)
        self._appended_to[at] = None

        def lines(first: int) -> bytes:
            return b"".join(encode_line(record, first + step) for step, record in enumerate(records))

        try:
            async with locked(lock_file(self.folder, at)):
                file.refresh()
                return file.append(lines)
        finally:
            self._bell.ring(at)

    async def _scanned(self, at: TopicPartition) -> PartitionFile:
        self._check_open()
        self._topics.check(at)
        file = self._file(at)
        await file.scan_until()
        return file

    def _file(self, at: TopicPartition) -> PartitionFile:
        if at not in self._files:
            path = partition_file(self.folder, at)
            begin = partial(begin_of, self.folder, at)
            self._files[at] = PartitionFile(at, path, begin=begin, read_only=self.read_only)
        self._files[at].refresh()
        return self._files[at]

    def _check_open(self) -> None:
        if self._closed:
            raise LogUnavailableError(f"{self.folder}: this log was closed", hint="Open it again.")

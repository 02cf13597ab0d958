"""A reader's position in one partition's file: from bytes to records.

It owns reading ahead in chunks and the warning about a torn tail. It must never know other readers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from steepest.errors import RecordingError
from steepest.log.base import Record
from steepest.log.files.partition_file import PartitionFile
from steepest.log.files.record_lines import decode_line
from steepest.log.validation import check_position
from steepest.logger import Logger

_log = Logger()


class FileCursor:
    """Implements ``steepest.log.local_reader.Cursor``. It looks for its line again only in a trimmed file."""

    def __init__(self, file: PartitionFile, offset: int, *, warn_torn: bool) -> None:
        """Start before this offset.

        Args:
            file: The partition's file.
            offset: The first record to read.
            warn_torn: Whether to warn about a torn tail: in a log that is no longer appended to, it stays torn.
        """
        self._file = file
        self._offset = offset
        self._warn_torn = warn_torn
        self._opening = 0
        self._position = 0
        self._lines: list[bytes] = []
        self._next = 0
        self._skip = 0

    async def seek(self) -> None:
        """See ``steepest.log.local_reader.Cursor.seek``. In a file that it sees first, it may have to count lines."""
        while self._opening != (opening := self._file.refresh()):
            await self._file.scan_until(self._offset)
            if opening != self._file.openings:
                continue
            check_position(self._file.at, self._offset, self._file.begin, self._file.records)
            near, self._position = self._file.near(self._offset)
            self._skip = self._offset - near
            self._lines, self._next = [], 0
            self._opening = opening

    def take(self, limit: int) -> Sequence[Record]:
        """See ``steepest.log.local_reader.Cursor.take``. At most one chunk's records, so that large ones fit in memory."""
        while self._next == len(self._lines):
            if not self._read_ahead():
                return ()
        taken: list[Record] = []
        at, path, begin = self._file.at, self._file.path, self._file.begin
        try:
            for line in itertools.islice(self._lines, self._next, self._next + limit):
                taken.append(decode_line(line, at, self._offset + len(taken), path, begin))
        except RecordingError:
            if not taken:
                raise  # it is raised again at every call, because the position does not move
        self._next += len(taken)
        self._offset += len(taken)
        return taken

    def close(self) -> None:
        """See ``steepest.log.local_reader.Cursor.close``. The file belongs to the log."""
        self._lines = []
        self._next = 0

    def _read_ahead(self) -> bool:
        data = self._file.lines_at(self._position)
        if not data:
            self._warn_of_tail()
            return False
        self._position += len(data)
        self._lines = data[:-1].split(b"\n")
        self._next = min(self._skip, len(self._lines))
        self._skip -= self._next
        return True

    def _warn_of_tail(self) -> None:
        if self._warn_torn and (torn := self._file.torn_bytes(self._position)):
            self._warn_torn = False
            _log.warning(
                "a recording ends in a torn line", file=str(self._file.path), position=self._position, bytes=torn
            )

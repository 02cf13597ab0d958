"""The files of one container's log on its node, from the oldest one to that which is written now.

It owns their names and the order of rotation, as the kubelet has them: ``0.log`` is written, and becomes
``0.log.20260131-120000``, which is compressed (``.gz``) with the rotation after that and removed with a later one. A file
that is open is read to its end, also where it was renamed or removed meanwhile. No link is followed, and only regular files
are opened. Where the order would have to be guessed, all is read again from the copy's place on. Calls block.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import deque
from pathlib import Path
from typing import NamedTuple

from steepest.cluster.folders.adapter_folder import warn_once
from steepest.errors import UntrustedError
from steepest.untrusted.files import open_file, walk

CHUNK_BYTES = 256 << 10
ENTRIES_MOST = 1_000
"""Files in the folder of a container's log: a kubelet keeps five of them, and as many are on their way."""

_ROTATED = re.compile(r"\.\d{8}-\d{6}(?P<gz>\.gz)?")
_GZIP = 31  # zlib's number for the header of gzip


class ReadAgainError(Exception):
    """The order of the files is not known any more, or one of them was cut: read again from the copy's place."""


class _Listed(NamedTuple):
    name: str
    inode: int
    written_s: float


class _Opened(NamedTuple):
    """An open file: as long as it is, no other one gets its inode."""

    file: int
    inode: int
    is_written: bool
    inflate: zlib._Decompress | None


class LogFiles:
    """One container's log.

    Args:
        folder: The folder of the container's log.
        name: Of the file that is written: ``0.log``.
        below: Nothing below this folder is trusted: the folder of the logs of all pods.
        since: Lines before this time are not needed, in Unix seconds; None: all are.
    """

    def __init__(self, folder: Path, name: str, *, below: Path, since: float | None) -> None:
        self._folder = folder
        self._name = name
        self._below = below
        self._since = since
        self._offset = 0
        self._is_left = False
        self._read_last: _Opened | None = None
        self._now: _Opened | None = None
        self._waiting = deque[_Opened]()

    def close(self) -> None:
        """Close what is open."""
        for each in (self._read_last, self._now, *self._waiting):
            if each is not None:
                os.close(each.file)
        self._read_last = self._now = None
        self._waiting.clear()

    def read(self) -> bytes:
        """The next bytes; none where there are none now.

        Raises:
            ReadAgainError: Begin again with new files.
            OSError: The node lacks something, such as memory.
        """
        while (now := self._now) is not None or self._begin_next():
            if now is None:
                continue
            if data := self._chunk(now):
                self._is_left = False
                return data
            if now.is_written and not self._is_replaced(now):
                return b""
            if self._read_last is not None:
                os.close(self._read_last.file)
            self._read_last, self._now = now, None
        return b""

    def _begin_next(self) -> bool:
        if not self._waiting:
            self._open_behind()
        if self._waiting:
            self._now, self._offset, self._is_left = self._waiting.popleft(), 0, False
        return self._now is not None

    def _chunk(self, now: _Opened) -> bytes:
        if now.inflate is not None:
            return self._inflated(now.file, now.inflate)
        if os.fstat(now.file).st_size < self._offset:
            raise ReadAgainError("a log file was cut")
        data = os.pread(now.file, CHUNK_BYTES, self._offset)
        self._offset += len(data)
        return data

    def _inflated(self, file: int, inflate: zlib._Decompress) -> bytes:
        while not inflate.eof:
            packed = inflate.unconsumed_tail
            if not packed:
                packed = os.pread(file, CHUNK_BYTES, self._offset)
                self._offset += len(packed)
                if not packed:
                    break  # it was cut off
            try:
                if data := inflate.decompress(packed, CHUNK_BYTES):
                    return data
            except zlib.error:
                break  # the rest of it is lost; the lines behind show that
        return b""

    def _is_replaced(self, now: _Opened) -> bool:
        """Whether another file is written now, and this one was read to its end after that."""
        written = next((each for each in self._listed() if each.name == self._name), None)
        if written is None or written.inode == now.inode:
            return False  # a log that was removed is not replaced by anything
        is_left, self._is_left = self._is_left, True
        return is_left  # the runtime may have been writing its last lines: look once more

    def _open_behind(self) -> None:
        """Open the files behind the one that was read to its end; where none was, all that may have something new."""
        listed = self._listed()
        if self._read_last is None:
            wanted = [each for each in listed if self._since is None or each.written_s >= self._since]
        else:
            inode = self._read_last.inode
            at = next((at for at, each in enumerate(listed) if each.inode == inode), None)
            if at is None and listed:
                raise ReadAgainError("the log was rotated more than once")
            wanted = listed[at + 1 :] if at is not None else []
        for each in wanted:
            self._waiting.append(self._opened(each))

    def _opened(self, wanted: _Listed) -> _Opened:
        try:
            file = open_file(self._folder / wanted.name, below=self._below)
        except FileNotFoundError as error:
            raise ReadAgainError("the log was rotated meanwhile") from error
        except UntrustedError as error:
            warn_once(self._folder / wanted.name, str(error))
            raise ReadAgainError(str(error)) from error
        if os.fstat(file).st_ino != wanted.inode:
            os.close(file)
            raise ReadAgainError("the log was rotated meanwhile")
        inflate = zlib.decompressobj(_GZIP) if wanted.name.endswith(".gz") else None
        return _Opened(file, wanted.inode, wanted.name == self._name, inflate)

    def _listed(self) -> list[_Listed]:
        """The files of the log, the oldest first; none where the folder is gone, or a link."""
        found: dict[str, _Listed] = {}
        try:
            for entry in walk(self._folder, below=self._below, most=ENTRIES_MOST, deepest=1):
                rotated = _ROTATED.fullmatch(entry.name.removeprefix(self._name))
                is_log = entry.name == self._name or (entry.name.startswith(self._name) and rotated)
                plain = entry.name.removesuffix(".gz")
                # While a file is compressed both are there, and the other one is not whole.
                if entry.is_file and is_log and (plain not in found or plain == entry.name):
                    found[plain] = _Listed(entry.name, entry.stat.st_ino, entry.stat.st_mtime)
        except FileNotFoundError:
            return []
        except UntrustedError as error:
            warn_once(self._folder, str(error))
            return []
        # The one that is written has the shortest name, and is the newest.
        return [each for name, each in sorted(found.items(), key=lambda one: (one[0] == self._name, one[0]))]

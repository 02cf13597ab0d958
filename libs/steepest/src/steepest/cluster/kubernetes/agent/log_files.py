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


class _LogFile(NamedTuple):
    name: str
    inode: int
    written_s: float


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
        self._file: int | None = None
        self._offset = 0
        self._is_written = False
        self._inflate: zlib._Decompress | None = None
        self._is_left = False
        self._waiting = [each for each in self._listed() if since is None or each.written_s >= since]

    def close(self) -> None:
        """Close what is open."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def read(self) -> bytes:
        """The next bytes; none where there are none now.

        Raises:
            ReadAgainError: Begin again with new files.
            OSError: The node lacks something, such as memory.
        """
        while self._file is not None or self._open_next():
            if data := self._chunk():
                self._is_left = False
                return data
            if self._is_written and not self._is_replaced():
                return b""
            self.close()
        return b""

    def _chunk(self) -> bytes:
        assert self._file is not None  # noqa: S101 - read() has opened it
        if self._inflate is not None:
            return self._inflated(self._inflate)
        if os.fstat(self._file).st_size < self._offset:
            raise ReadAgainError("a log file was cut")
        data = os.pread(self._file, CHUNK_BYTES, self._offset)
        self._offset += len(data)
        return data

    def _inflated(self, inflate: zlib._Decompress) -> bytes:
        assert self._file is not None  # noqa: S101 - as above
        while not inflate.eof:
            packed = inflate.unconsumed_tail
            if not packed:
                packed = os.pread(self._file, CHUNK_BYTES, self._offset)
                self._offset += len(packed)
                if not packed:
                    break  # it was cut off
            try:
                if data := inflate.decompress(packed, CHUNK_BYTES):
                    return data
            except zlib.error:
                break  # the rest of it is lost; the lines behind show that
        return b""

    def _open_next(self) -> bool:
        if not self._waiting:
            self._waiting = [each for each in self._listed() if each.name == self._name]
            if not self._waiting:
                return False
        wanted = self._waiting.pop(0)
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
        self._file, self._offset = file, 0
        self._is_written = wanted.name == self._name
        self._inflate = zlib.decompressobj(_GZIP) if wanted.name.endswith(".gz") else None
        return True

    def _is_replaced(self) -> bool:
        """Whether another file is written now, and this one was read to its end after that; then those behind it wait."""
        assert self._file is not None  # noqa: S101 - as above
        listed = self._listed()
        mine = os.fstat(self._file).st_ino
        written = next((each for each in listed if each.name == self._name), None)
        if written is None or written.inode == mine:
            return False  # a log that was removed is not replaced by anything
        if not self._is_left:
            self._is_left = True  # the runtime may have been writing its last lines: look once more
            return False
        at = next((at for at, each in enumerate(listed) if each.inode == mine), None)
        if at is None:
            raise ReadAgainError("the log was rotated more than once")
        self._waiting = listed[at + 1 :]
        return True

    def _listed(self) -> list[_LogFile]:
        """The files of the log, the oldest first; none where the folder is gone, or a link."""
        found: dict[str, _LogFile] = {}
        try:
            for entry in walk(self._folder, below=self._below, most=ENTRIES_MOST, deepest=1):
                rotated = _ROTATED.fullmatch(entry.name.removeprefix(self._name))
                if (
                    not entry.is_file
                    or not entry.name.startswith(self._name)
                    or not (rotated or entry.name == self._name)
                ):
                    continue
                plain = entry.name.removesuffix(".gz")
                if plain not in found or not entry.name.endswith(".gz"):  # while it is compressed both are there
                    found[plain] = _LogFile(entry.name, entry.stat.st_ino, entry.stat.st_mtime)
        except FileNotFoundError:
            return []
        except UntrustedError as error:
            warn_once(self._folder, str(error))
            return []
        # The one that is written has the shortest name, and is the newest.
        return [each for name, each in sorted(found.items(), key=lambda one: (one[0] == self._name, one[0]))]

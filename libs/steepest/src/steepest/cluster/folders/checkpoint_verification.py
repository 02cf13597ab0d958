"""Verifies the checkpoints on a job's volume: the manifest exists, and every file matches it.

It owns verification; it must never write to the volume, which belongs to the job. The layout and the digest are those of
``docs/control-folder.md``; nothing is unpickled, and no name leads out of the folder. A job decides how much there is to
read, so verification runs in time slices (:mod:`steepest.cluster.time_slicer`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from pathlib import Path

import msgspec

from steepest.cluster.folders.adapter_folder import warn_once
from steepest.cluster.time_slicer import run_to_end
from steepest.errors import InputError, UntrustedError
from steepest.events.common import CHECKPOINT_NAME, CheckpointRef, Count
from steepest.keeper.images import FACTS
from steepest.untrusted.files import Entry, open_file, walk
from steepest.untrusted.json import read_json

_MANIFEST = "manifest.json"
_MANIFEST_BYTES_MOST = 64 << 20  # ten times a manifest of 100,000 files
_FILES_MOST = 100_000
_DEEPEST = 32
_VOLUME_MOST = 1000  # an SDK keeps two checkpoints
_LOOKED_AT_MOST = 20
_CHUNK_BYTES = 1 << 20
_ENTRIES_AT_ONCE = 1000

Reading = Generator[None, None, CheckpointRef]


class _FileEntry(msgspec.Struct, frozen=True):
    bytes: Count
    sha256: str


class _Manifest(msgspec.Struct, frozen=True):
    job: str
    step: Count
    incarnation: Count
    digest: str
    files: dict[str, _FileEntry]


class Volume:
    """The checkpoints of one job.

    A verified checkpoint is not read again while no file in it changes its inode, size or time.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self._folder = folder
        self._below = folder.parent
        self._job = job
        self._known: dict[str, tuple[bytes, CheckpointRef | None]] = {}
        self.newest: CheckpointRef | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it; False if it cannot be read, which is reported where it is verified."""
        try:
            return next(iter(walk(self._folder, below=self._below, most=_VOLUME_MOST, deepest=1)), None) is None
        except FileNotFoundError:
            return True
        except (OSError, UntrustedError):
            return False

    def refreshing(self) -> Generator[None, None, CheckpointRef | None]:
        """Scan the volume again; return the newest valid checkpoint (highest incarnation, then highest step)."""
        names = self._names_newest_first()
        self._known = {name: self._known[name] for name in names if name in self._known}
        for name in names:
            if (found := (yield from self._remembered(name))) is not None:
                self.newest = found
                return found
        self.newest = None
        return None

    def refresh(self) -> CheckpointRef | None:
        """The same without time slices."""
        return run_to_end(self.refreshing())

    def verifying(self, name: str) -> Reading:
        """Read one checkpoint in full, unless it was read already.

        Raises:
            InputError: It is missing, incomplete, of another job or modified; the message says what differs.
        """
        if CHECKPOINT_NAME.fullmatch(name) is None:
            raise InputError(f"{name[:100]!r} is not a valid checkpoint name", code="checkpoint-invalid")
        folder = self._folder / name
        try:
            signature = _signature((yield from self._survey(folder)))
            known = self._known.get(name)
            if known is not None and known[0] == signature and known[1] is not None:
                return known[1]
            found = yield from self._verify(folder)
        except (OSError, UntrustedError) as error:
            raise _invalid(folder, str(error)) from error
        self._known[name] = (signature, found)
        return found

    def verify(self, name: str) -> CheckpointRef:
        """The same without time slices."""
        return run_to_end(self.verifying(name))

    def _names_newest_first(self) -> list[str]:
        try:
            entries = list(walk(self._folder, below=self._below, most=_VOLUME_MOST, deepest=1))
        except FileNotFoundError:
            return []
        except (OSError, UntrustedError) as error:
            warn_once(self._folder, str(error))
            return []
        matches = (match for entry in entries if (match := CHECKPOINT_NAME.fullmatch(entry.name)))
        newest_first = sorted(matches, key=lambda match: (int(match[2]), int(match[1])), reverse=True)
        return [match[0] for match in newest_first[:_LOOKED_AT_MOST]]

    def _remembered(self, name: str) -> Generator[None, None, CheckpointRef | None]:
        try:
            signature = _signature((yield from self._survey(self._folder / name)))
        except FileNotFoundError:  # the job removed it in the meantime
            return None
        except (OSError, UntrustedError) as error:
            warn_once(self._folder / name, str(error))
            return None
        known = self._known.get(name)
        if known is None or known[0] != signature:
            known = (signature, (yield from self._verified_or_none(name)))
            self._known[name] = known
        return known[1]

    def _verified_or_none(self, name: str) -> Generator[None, None, CheckpointRef | None]:
        try:
            return (yield from self.verifying(name))
        except InputError as error:
            warn_once(self._folder / name, str(error))
            return None

    def _verify(self, folder: Path) -> Reading:
        manifest = self._read_manifest(folder)
        if manifest.job != self._job:
            raise _invalid(folder, f"it belongs to the job {manifest.job[:100]!r}, not {self._job!r}")
        if f"step-{manifest.step:08d}-i{manifest.incarnation:04d}" != folder.name:
            raise _invalid(folder, f"its manifest says step {manifest.step} of incarnation {manifest.incarnation}")
        found = _sizes(folder, (yield from self._survey(folder)))
        for name in sorted(manifest.files.keys() | found.keys()):
            if name not in manifest.files or manifest.files[name].bytes != found.get(name):
                raise _differs(folder, name)
        if _digest(manifest.files) != manifest.digest:
            raise _invalid(folder, "the digest is not that of the files")
        for name in sorted(found):  # last, because only hashing takes time
            if (yield from self._hash(folder / name, found[name])) != manifest.files[name].sha256:
                raise _differs(folder, name)
        size = sum(found.values())
        return CheckpointRef(
            name=folder.name, step=manifest.step, digest=manifest.digest, size_bytes=size, is_image=FACTS in found
        )

    def _read_manifest(self, folder: Path) -> _Manifest:
        try:
            return read_json(folder / _MANIFEST, _Manifest, below=self._below, most=_MANIFEST_BYTES_MOST)
        except UntrustedError as error:
            raise _invalid(folder, f"its manifest cannot be read: {error}") from error

    def _survey(self, folder: Path) -> Generator[None, None, list[Entry]]:
        found = []
        for entry in walk(folder, below=self._below, most=_FILES_MOST, deepest=_DEEPEST):
            found.append(entry)
            if len(found) % _ENTRIES_AT_ONCE == 0:
                yield
        return found

    def _hash(self, path: Path, size: int) -> Generator[None, None, str]:
        """The SHA-256 of a file of that size; if it grows in the meantime, reading stops after ``size``."""
        digest = hashlib.sha256()
        descriptor = open_file(path, below=self._below)
        try:
            at = 0
            while at <= size and (chunk := os.pread(descriptor, _CHUNK_BYTES, at)):
                digest.update(chunk)
                at += len(chunk)
                yield
        finally:
            os.close(descriptor)
        return digest.hexdigest()


def _sizes(folder: Path, entries: list[Entry]) -> dict[str, int]:
    sizes = {}
    for entry in entries:
        if not (entry.is_file or entry.is_folder):
            raise _invalid(folder, f"{entry.name[:200]!r} is neither a file nor a folder")
        if entry.is_file and entry.name != _MANIFEST:
            sizes[entry.name] = entry.stat.st_size
    return sizes


def _signature(entries: list[Entry]) -> bytes:
    """A fixed-size value that changes with the inode, size or time of any file."""
    files = sorted((one.name, one.stat.st_ino, one.stat.st_size, one.stat.st_mtime_ns) for one in entries)
    return hashlib.sha256(repr(files).encode("utf-8", "surrogateescape")).digest()


def _digest(files: dict[str, _FileEntry]) -> str:
    lines = "".join(f"{name}\t{files[name].bytes}\t{files[name].sha256}\n" for name in sorted(files))
    return "sha256:" + hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def _differs(folder: Path, name: str) -> InputError:
    return _invalid(folder, f"the file {name[:200]!r} does not match the manifest")


def _invalid(folder: Path, why: str) -> InputError:
    return InputError(f"the checkpoint {folder} is invalid: {why}", code="checkpoint-invalid")

"""Which checkpoints on a job's volume are good: the manifest is there, and every file is what it says.

It owns verification; it must never write to the volume, which is the job's. The layout and the digest are those of
``docs/control-folder.md``; nothing is unpickled, and no name leads out of the folder.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import msgspec

from steepest.cluster.folder import complain
from steepest.errors import InputError
from steepest.events.common import CheckpointRef, Count

_MANIFEST = "manifest.json"
_MANIFEST_BYTES_MOST = 64 << 20  # a manifest of 100,000 files is a tenth of it
_NAME = re.compile(r"step-([0-9]{8,18})-i([0-9]{4,18})")

_Signature = tuple[tuple[str, int, int, int], ...]


class _File(msgspec.Struct, frozen=True):
    bytes: Count
    sha256: str


class _Manifest(msgspec.Struct, frozen=True):
    job: str
    step: Count
    incarnation: Count
    digest: str
    files: dict[str, _File]


class Volume:
    """The checkpoints of one job. Its calls block: they read every byte of a checkpoint that they do not know yet.

    A verified checkpoint is not read again while no file in it changes its inode, size or time.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self._folder = folder
        self._job = job
        self._known: dict[str, tuple[_Signature, CheckpointRef | None]] = {}
        self.newest: CheckpointRef | None = None

    def refresh(self) -> CheckpointRef | None:
        """Look again; give the newest good checkpoint (the highest incarnation, in it the highest step)."""
        names = self._names_newest_first()
        self._known = {name: self._known[name] for name in names if name in self._known}
        for name in names:
            if (found := self._remembered(name)) is not None:
                self.newest = found
                return found
        self.newest = None
        return None

    def verify(self, name: str) -> CheckpointRef:
        """Read one checkpoint in full.

        Raises:
            InputError: It is not there, torn, foreign or was changed; the message says what differs.
        """
        if _NAME.fullmatch(name) is None:
            raise InputError(f"{name[:100]!r} is no name of a checkpoint", code="checkpoint-invalid")
        try:
            return self._verify(self._folder / name)
        except OSError as error:
            raise _invalid(self._folder / name, str(error)) from error

    def _names_newest_first(self) -> list[str]:
        try:
            names = [path.name for path in self._folder.iterdir()]
        except OSError:
            return []
        matches = (match for name in names if (match := _NAME.fullmatch(name)))
        return [match[0] for match in sorted(matches, key=lambda m: (int(m[2]), int(m[1])), reverse=True)]

    def _remembered(self, name: str) -> CheckpointRef | None:
        try:
            signature = _signature(self._folder / name)
        except OSError:
            return None
        known = self._known.get(name)
        if known is None or known[0] != signature:
            known = (signature, self._verified_or_none(name, signature))
            self._known[name] = known
        return known[1]

    def _verified_or_none(self, name: str, signature: _Signature) -> CheckpointRef | None:
        try:
            return self.verify(name)
        except InputError as error:
            complain(self._folder / name, hash(signature), str(error))
            return None

    def _verify(self, folder: Path) -> CheckpointRef:
        manifest = _read_manifest(folder)
        if manifest.job != self._job:
            raise _invalid(folder, f"it belongs to the job {manifest.job[:100]!r}, not {self._job!r}")
        if f"step-{manifest.step:08d}-i{manifest.incarnation:04d}" != folder.name:
            raise _invalid(folder, f"its manifest says step {manifest.step} of incarnation {manifest.incarnation}")
        found = _survey(folder)
        for name in sorted(manifest.files.keys() | found.keys()):
            if manifest.files.get(name) != found.get(name):
                raise _invalid(folder, f"the file {name[:200]!r} is not what the manifest says")
        if _digest(found) != manifest.digest:
            raise _invalid(folder, "the digest is not that of the files")
        return CheckpointRef(name=folder.name, step=manifest.step, digest=manifest.digest)


def _read_manifest(folder: Path) -> _Manifest:
    if folder.is_symlink():
        raise _invalid(folder, "it is a link")
    with (folder / _MANIFEST).open("rb") as file:
        content = file.read(_MANIFEST_BYTES_MOST + 1)
    if len(content) > _MANIFEST_BYTES_MOST:
        raise _invalid(folder, f"its manifest is larger than {_MANIFEST_BYTES_MOST} bytes")
    try:
        return msgspec.json.decode(content, type=_Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _invalid(folder, f"its manifest cannot be read: {error}") from error


def _survey(folder: Path) -> dict[str, _File]:
    found = {}
    for path in _entries(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise _invalid(folder, f"{name[:200]!r} is neither a file nor a folder")
        if path.is_file() and name != _MANIFEST:
            with path.open("rb") as file:
                found[name] = _File(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())
    return found


def _signature(folder: Path) -> _Signature:
    stats = ((path, path.lstat()) for path in _entries(folder))
    return tuple((str(path), stat.st_ino, stat.st_size, stat.st_mtime_ns) for path, stat in stats)


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def _digest(files: dict[str, _File]) -> str:
    lines = "".join(f"{name}\t{files[name].bytes}\t{files[name].sha256}\n" for name in sorted(files))
    return "sha256:" + hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def _invalid(folder: Path, why: str) -> InputError:
    return InputError(f"the checkpoint {folder} is refused: {why}", code="checkpoint-invalid")

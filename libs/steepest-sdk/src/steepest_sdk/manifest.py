"""Owns what makes a folder a checkpoint: its name, its manifest, its digest. It reads; it never writes or deletes.

The layout is ``docs/control-folder.md``, "Checkpoints".
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

MANIFEST = "manifest.json"
_MANIFEST_BYTES_MOST = 64 << 20  # far beyond a manifest of 100,000 files; a bound on what is read into memory
_NAME = re.compile(r"step-([0-9]{8,18})-i([0-9]{4,18})")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")


class CheckpointRefused(Exception):  # noqa: N818 - named by what happened to it, like the ack's field
    """A folder is no good checkpoint of this job; the text says why."""


@dataclass(frozen=True, order=True)
class Name:
    """A checkpoint's name; a greater one is newer.

    The incarnation counts first: what a later incarnation saved is what the job is now, even if it had to begin
    again further back, and a process that was replaced cannot overtake its successor.
    """

    incarnation: int
    step: int

    def __str__(self) -> str:
        return f"step-{self.step:08d}-i{self.incarnation:04d}"

    @classmethod
    def parse(cls, text: str) -> Name | None:
        """Reads ``step-00000120-i0002``; None where the text is not exactly such a name."""
        match = _NAME.fullmatch(text)
        if match is None:
            return None
        name = cls(step=int(match[1]), incarnation=int(match[2]))
        return name if str(name) == text else None


@dataclass(frozen=True)
class FileDigest:
    """One file of a checkpoint: its size in bytes and the SHA-256 of its content in hexadecimal."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint says of itself.

    Attributes:
        job: The job that it belongs to.
        step: The last step whose effect it holds.
        incarnation: The incarnation that saved it.
        digest: ``digest_of`` its files.
        files: By path relative to the checkpoint, with ``/`` between folders.
        epochs: How many epochs are complete, where the script counts by epochs.
    """

    job: str
    step: int
    incarnation: int
    digest: str
    files: Mapping[str, FileDigest]
    epochs: int | None = None

    def encode(self) -> bytes:
        """The bytes of ``manifest.json``, the same for the same manifest."""
        fields = {key: value for key, value in asdict(self).items() if value is not None}
        fields["files"] = {name: asdict(self.files[name]) for name in sorted(self.files)}
        return json.dumps(fields, indent=1).encode() + b"\n"

    @classmethod
    def decode(cls, content: bytes) -> Manifest:
        """Reads ``manifest.json``; fields that it does not know are skipped.

        Raises:
            CheckpointRefused: It is no JSON, or a field is missing or of the wrong type.
        """
        try:
            fields = json.loads(content)
            epochs = fields.get("epochs")
            files = {
                name: FileDigest(_count(entry["bytes"]), _text(entry["sha256"]))
                for name, entry in fields["files"].items()
            }
            return cls(
                job=_text(fields["job"]),
                step=_count(fields["step"]),
                incarnation=_count(fields["incarnation"]),
                digest=_text(fields["digest"]),
                files=files,
                epochs=None if epochs is None else _count(epochs),
            )
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise CheckpointRefused(f"{MANIFEST} cannot be read: {error!r}") from None


def digest_of(files: Mapping[str, FileDigest]) -> str:
    r"""SHA-256 of the lines ``<name>\t<bytes>\t<sha256>\n``, ordered by the names' code points.

    That is the order of their UTF-8 bytes as well, so that a program in another language finds the same one.
    """
    lines = "".join(f"{name}\t{files[name].bytes}\t{files[name].sha256}\n" for name in sorted(files))
    return "sha256:" + hashlib.sha256(lines.encode()).hexdigest()


def survey(folder: Path) -> dict[str, FileDigest]:
    """The size and SHA-256 of each file in a folder and the folders in it, but the manifest.

    Raises:
        CheckpointRefused: It holds something that is neither file nor folder (a link may lead outside, where the
            content changes unseen), or a name that the digest's lines cannot hold.
        OSError: A file cannot be read.
    """
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise CheckpointRefused(f"{name!r} is neither a file nor a folder")
        if _CONTROL_CHARACTER.search(name) or not _encodable(name):
            raise CheckpointRefused(f"the name {name!r} holds a control character or is not UTF-8")
        if path.is_file() and name != MANIFEST:
            with path.open("rb") as content:
                sha256 = hashlib.file_digest(content, "sha256").hexdigest()
            files[name] = FileDigest(path.stat().st_size, sha256)
    return files


def verify(folder: Path, job: str) -> Manifest:
    """The manifest of a checkpoint, once every file in the folder has been found to be what it says.

    Args:
        folder: The checkpoint; its name must be what the manifest says.
        job: The job that it must belong to.

    Raises:
        CheckpointRefused: It is torn, foreign or was changed; the text says what differs.
    """
    try:
        manifest = Manifest.decode(_read_manifest(folder))
        if manifest.job != job:
            raise CheckpointRefused(f"it belongs to the job {manifest.job!r}, not {job!r}")
        named = str(Name(step=manifest.step, incarnation=manifest.incarnation))
        if named != folder.name:
            raise CheckpointRefused(f"{MANIFEST} says that it is {named}")
        found = survey(folder)
    except OSError as error:
        raise CheckpointRefused(f"it cannot be read: {error}") from None
    _compare(manifest, found)
    return manifest


def _read_manifest(folder: Path) -> bytes:
    if folder.is_symlink():
        raise CheckpointRefused("it is a link")
    with (folder / MANIFEST).open("rb") as file:
        content = file.read(_MANIFEST_BYTES_MOST + 1)
    if len(content) > _MANIFEST_BYTES_MOST:
        raise CheckpointRefused(f"{MANIFEST} is larger than {_MANIFEST_BYTES_MOST} bytes")
    return content


def _compare(manifest: Manifest, found: Mapping[str, FileDigest]) -> None:
    for name in sorted(manifest.files.keys() | found.keys()):
        if name not in found:
            raise CheckpointRefused(f"the file {name!r} is missing")
        if name not in manifest.files:
            raise CheckpointRefused(f"the file {name!r} is not in {MANIFEST}")
        if found[name] != manifest.files[name]:
            raise CheckpointRefused(f"the file {name!r} is not what {MANIFEST} says")
    if digest_of(found) != manifest.digest:
        raise CheckpointRefused(f"the digest in {MANIFEST} is not that of the files")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r} is no whole number from 0")
    return value


def _encodable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True

"""Defines a valid checkpoint: its name, its manifest, its digest. It reads; it never writes or deletes.

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
_MANIFEST_BYTES_MOST = 64 << 20  # much more than a manifest of 100,000 files; bounds the memory
_NAME = re.compile(r"step-([0-9]{8,18})-i([0-9]{4,18})")
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")


class CheckpointRefused(Exception):  # noqa: N818 - named by what happened to it, like the ack's field
    """A folder is not a valid checkpoint of this job; the text has the reason."""


@dataclass(frozen=True, order=True)
class CheckpointName:
    """A checkpoint's name; a greater one is newer.

    The incarnation counts first: a later incarnation's checkpoint is the job's current state, even if it had to restart
    from an earlier step, and a process that was replaced cannot overtake its successor.
    """

    incarnation: int
    step: int

    def __str__(self) -> str:
        return f"step-{self.step:08d}-i{self.incarnation:04d}"

    @classmethod
    def parse(cls, text: str) -> CheckpointName | None:
        """Parses ``step-00000120-i0002``; None if the text is not exactly such a name."""
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
    """The content of a checkpoint's manifest.

    Attributes:
        job: The job that it belongs to.
        step: The last step whose effect it contains.
        incarnation: The incarnation that saved it.
        digest: ``digest_of`` its files.
        files: Path relative to the checkpoint, separated by ``/``, to the file's digest.
        epochs: Number of complete epochs, if the script counts by epochs.
    """

    job: str
    step: int
    incarnation: int
    digest: str
    files: Mapping[str, FileDigest]
    epochs: int | None = None

    def encode(self) -> bytes:
        """The bytes of ``manifest.json``; equal manifests have equal bytes."""
        fields = {key: value for key, value in asdict(self).items() if value is not None}
        fields["files"] = {name: asdict(self.files[name]) for name in sorted(self.files)}
        return json.dumps(fields, indent=1).encode() + b"\n"

    @classmethod
    def decode(cls, content: bytes) -> Manifest:
        """Parses ``manifest.json``; unknown fields are ignored.

        Raises:
            CheckpointRefused: It is not JSON, or a field is missing or has the wrong type.
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

    This is also the order of their UTF-8 bytes, so that a program in another language computes the same digest.
    """
    lines = "".join(f"{name}\t{files[name].bytes}\t{files[name].sha256}\n" for name in sorted(files))
    return "sha256:" + hashlib.sha256(lines.encode()).hexdigest()


def survey(folder: Path) -> dict[str, FileDigest]:
    """The size and SHA-256 of each file in a folder and its subfolders, except the manifest.

    Raises:
        CheckpointRefused: It contains something that is neither a file nor a folder (a link may lead outside, where the
            content can change unnoticed), or a name that cannot be part of the digest's lines.
        OSError: A file cannot be read.
    """
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise CheckpointRefused(f"{name!r} is neither a file nor a folder")
        if _CONTROL_CHARACTER.search(name) or not _encodable(name):
            raise CheckpointRefused(f"the name {name!r} contains a control character or is not UTF-8")
        if path.is_file() and name != MANIFEST:
            with path.open("rb") as content:
                sha256 = hashlib.file_digest(content, "sha256").hexdigest()
            files[name] = FileDigest(path.stat().st_size, sha256)
    return files


def verify(folder: Path, job: str) -> Manifest:
    """Verifies every file of a checkpoint against its manifest, and returns the manifest.

    Args:
        folder: The checkpoint; its name must match the manifest.
        job: The job that it must belong to.

    Raises:
        CheckpointRefused: It is incomplete, of another job or modified; the text says what differs.
    """
    try:
        manifest = Manifest.decode(_read_manifest(folder))
        if manifest.job != job:
            raise CheckpointRefused(f"it belongs to the job {manifest.job!r}, not {job!r}")
        named = str(CheckpointName(step=manifest.step, incarnation=manifest.incarnation))
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
            raise CheckpointRefused(f"the file {name!r} does not match {MANIFEST}")
    if digest_of(found) != manifest.digest:
        raise CheckpointRefused(f"the digest in {MANIFEST} does not match the files")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r} is not a whole number from 0")
    return value


def _encodable(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True

"""The layout of a recording: ``recording.json``, and a file for each partition that it names.

It owns the folder's layout (``docs/recordings.md``). It must never know the content of a partition's file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import msgspec

from steepest.errors import InputError, LogUnavailableError, RecordingError, UntrustedError
from steepest.log.base import TopicPartition
from steepest.log.files.atomic_write import sync_folder, write_atomically
from steepest.log.files.file_lock import locked_blocking
from steepest.log.validation import Topics
from steepest.untrusted.files import read
from steepest.untrusted.json import decode

FORMAT = "steepest-recording"
VERSION = 1
NAME = "recording.json"

MAX_BYTES = 4 * 2**20
"""Size limit of ``recording.json``: enough for the maximum number of topics with the longest names."""


MAX_COUNT = 2**63 - 1
"""Larger counts are rejected by the decoder: a number may be too long to be printed."""


class Recording(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of ``recording.json``.

    Attributes:
        partitions: Topic to number of partitions.
        begins: Partition (as ``topic/number``) to the offset of its first line, if that is not 0.
        created_by: Program and version, for people.
    """

    format: str
    version: int
    partitions: dict[str, Annotated[int, msgspec.Meta(ge=-MAX_COUNT, le=MAX_COUNT)]]
    begins: dict[str, Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]] = {}
    created_by: str = ""


class _FormatVersion(msgspec.Struct):
    """The two fields that every version of the format has."""

    format: str = ""
    version: int = 0


def partition_file(folder: Path, at: TopicPartition) -> Path:
    """The path of a partition's records."""
    return folder / at.topic / f"{at.partition}.jsonl"


def lock_file(folder: Path, at: TopicPartition) -> Path:
    """The path of the lock that an append to a partition takes."""
    return folder / at.topic / f"{at.partition}.lock"


def open_recording(folder: Path) -> Topics:
    """The topics of the recording in a folder; it changes nothing.

    Raises:
        RecordingError: The folder is not a recording, has another version, or a file is missing.
    """
    recording = _read(folder)
    try:
        topics = Topics(recording.partitions, source=f"{folder / NAME}: partitions")
    except InputError as error:
        raise RecordingError(str(error), hint=error.hint) from error
    topics.source = str(folder)
    for at in topics.all():
        if not partition_file(folder, at).is_file():
            raise RecordingError(
                f"{partition_file(folder, at)} is missing, although {NAME} names {at}",
                hint="Restore the file; if it was always empty, create an empty one.",
            )
    return topics


def begin_of(folder: Path, at: TopicPartition) -> int:
    """The first offset of a recording's partition, see ``Recording.begins``.

    Raises:
        RecordingError: The folder is not a recording, or has another version.
    """
    return _read(folder).begins.get(str(at), 0)


def create_recording(folder: Path, partitions: Mapping[str, int], begins: Mapping[str, int] | None = None) -> Topics:
    """Create a recording with these partitions, or check that the folder is one already. Concurrent calls are safe.

    Args:
        folder: The recording's folder.
        partitions: Topic to number of partitions.
        begins: As ``Recording.begins``, for a recording that is created; an existing one keeps its own.

    Raises:
        InputError: A topic name is invalid, or a number of partitions is below 1.
        LogUnavailableError: The folder is not writable.
        RecordingError: The folder is a recording with other partitions or another version.
    """
    wanted = Topics(partitions, source=str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked_blocking(folder / "recording.lock"):
            if not (folder / NAME).exists():
                _write(folder, wanted, begins or {})
    except OSError as error:
        raise LogUnavailableError(
            f"{folder}: cannot create a recording: {error.strerror}",
            hint="Choose a writable folder, on a disk with free space.",
        ) from error
    found = open_recording(folder)
    if found.counts != wanted.counts:
        raise RecordingError(
            f"{folder} is a recording with the partitions {found.counts}, not {wanted.counts}",
            hint="Use another folder, or the same partitions: they cannot change once they contain records.",
        )
    return found


def change_recording(
    folder: Path, partitions: Mapping[str, int] = MappingProxyType({}), begins: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Add partitions behind those that topics of a recording have, or let some begin later.

    While partitions are added, no process may have the recording open.

    Args:
        folder: The recording's folder.
        partitions: Topic to the number of partitions that it must have at least.
        begins: As ``Recording.begins``, of the partitions that begin later now.

    Raises:
        LogUnavailableError: The folder is not writable.
        RecordingError: It is not a recording, or has no such topic.
    """
    try:
        with locked_blocking(folder / "recording.lock"):
            recording = _read(folder)
            if unknown := sorted(partitions.keys() - recording.partitions.keys()):
                raise RecordingError(
                    f"{folder} has no topic {unknown[0]}", hint="name a recording of this installation"
                )
            wanted = {topic: max(had, partitions.get(topic, 0)) for topic, had in recording.partitions.items()}
            if wanted != recording.partitions or begins:
                _write(folder, Topics(wanted, source=str(folder)), {**recording.begins, **begins})
    except OSError as error:
        raise LogUnavailableError(
            f"{folder}: cannot be changed: {error.strerror}", hint="make room there, or check its permissions"
        ) from error


def _write(folder: Path, topics: Topics, begins: Mapping[str, int]) -> None:
    import importlib.metadata  # noqa: PLC0415 - it takes long to import, and who reads does without

    # The partitions' files first: recording.json, which makes the folder a recording, must imply that all of them exist.
    for at in topics.all():
        path = partition_file(folder, at)
        path.parent.mkdir(exist_ok=True)
        path.touch(mode=0o600)
        sync_folder(path.parent)
    recording = Recording(
        format=FORMAT,
        version=VERSION,
        partitions=topics.counts,
        begins={at: offset for at, offset in begins.items() if offset},
        created_by=f"steepest {importlib.metadata.version('steepest')}",
    )
    write_atomically(folder / NAME, msgspec.json.format(msgspec.json.encode(recording), indent=2) + b"\n")


def _read(folder: Path) -> Recording:
    path = folder / NAME
    try:
        data = read(path, below=folder, most=MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise RecordingError(
            f"{folder} is not a recording: it has no {NAME}",
            hint="Name the folder that contains the recording's recording.json.",
        ) from error
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}", hint="Check its permissions.") from error
    except UntrustedError as error:
        raise RecordingError(str(error), hint="Restore the file, or check its permissions.") from error
    try:
        kind = decode(data, _FormatVersion)
        if kind.format != FORMAT:
            raise RecordingError(
                f"{path}: its format is {kind.format[:100]!r}, not {FORMAT!r}",
                hint="Name a recording of Steepest.",
            )
        if kind.version != VERSION:
            raise RecordingError(
                f"{path}: the recording has format version {kind.version}; this program reads {VERSION}",
                hint="Use the release of Steepest that wrote it.",
            )
        return decode(data, Recording)
    except UntrustedError as error:
        raise RecordingError(f"{path}: is malformed: {error}", hint="Restore the file.") from error

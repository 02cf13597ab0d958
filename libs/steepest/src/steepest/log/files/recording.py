"""What makes a folder a recording: ``recording.json``, and a file for each partition that it names.

It owns the folder's layout (``docs/recordings.md``). It must never know what stands in a partition's file.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from steepest.errors import InputError, LogUnavailableError, RecordingError, UntrustedError
from steepest.log.base import TopicPartition
from steepest.log.files.atomic_write import sync_folder, write_atomically
from steepest.log.files.file_lock import locked_at_once
from steepest.log.validation import Topics
from steepest.untrusted.files import read
from steepest.untrusted.json import decode

FORMAT = "steepest-recording"
VERSION = 1
NAME = "recording.json"

MAX_BYTES = 4 * 2**20
"""Of ``recording.json``: room for as many topics as there may be partitions, with the longest names."""


MAX_COUNT = 2**63 - 1
"""What is beyond is not even told: there are numbers too long to be printed."""


class Recording(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of ``recording.json``.

    Attributes:
        partitions: Topic to number of partitions.
        begins: Partition (as ``topic/number``) to the offset of its first line, where that is not 0.
        created_by: Program and version, for people.
    """

    format: str
    version: int
    partitions: dict[str, Annotated[int, msgspec.Meta(ge=-MAX_COUNT, le=MAX_COUNT)]]
    begins: dict[str, Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]] = {}
    created_by: str = ""


class _Kind(msgspec.Struct):
    """The two fields that every version of the format has."""

    format: str = ""
    version: int = 0


def partition_file(folder: Path, at: TopicPartition) -> Path:
    """Where a partition's records are."""
    return folder / at.topic / f"{at.partition}.jsonl"


def lock_file(folder: Path, at: TopicPartition) -> Path:
    """What those lock who append to a partition."""
    return folder / at.topic / f"{at.partition}.lock"


def open_recording(folder: Path) -> Topics:
    """The topics of the recording in a folder; touches nothing.

    Raises:
        RecordingError: The folder is no recording, one of another version, or has lost a file.
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
                hint="Restore the file; if nothing was ever in it, make an empty one.",
            )
    return topics


def begins_of(folder: Path) -> Mapping[str, int]:
    """Where the partitions of a folder's recording begin, as ``Recording.begins`` says.

    Raises:
        RecordingError: The folder is no recording, or one of another version.
    """
    return _read(folder).begins


def create_recording(folder: Path, partitions: Mapping[str, int], begins: Mapping[str, int] | None = None) -> Topics:
    """Make a folder a recording with these partitions, or find that it is one already. Several may do so at once.

    Args:
        folder: Where it will be.
        partitions: Topic to number of partitions.
        begins: As ``Recording.begins``, of a recording that is made; one that is there keeps its own.

    Raises:
        InputError: A name that is no topic's, or a number of partitions below 1.
        LogUnavailableError: The folder cannot be written to.
        RecordingError: The folder is a recording with other partitions, or of another version.
    """
    wanted = Topics(partitions, source=str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked_at_once(folder / "recording.lock"):
            if not (folder / NAME).exists():
                _write(folder, wanted, begins or {})
    except OSError as error:
        raise LogUnavailableError(
            f"{folder}: no recording can be made here: {error.strerror}",
            hint="Choose a folder that can be written to, on a disk with room.",
        ) from error
    found = open_recording(folder)
    if found.counts != wanted.counts:
        raise RecordingError(
            f"{folder} is a recording with the partitions {found.counts}, not {wanted.counts}",
            hint="Use another folder, or the same partitions: they never change once records are in them.",
        )
    return found


def _write(folder: Path, topics: Topics, begins: Mapping[str, int]) -> None:
    # The partitions' files first: a folder without recording.json is none, one with it has them all.
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
            f"{folder} is no recording: there is no {NAME} in it",
            hint="Name the folder in which a recording's recording.json is.",
        ) from error
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}", hint="See to its permissions.") from error
    except UntrustedError as error:
        raise RecordingError(str(error), hint="Restore the file, or see to its permissions.") from error
    try:
        kind = decode(data, _Kind)
        if kind.format != FORMAT:
            raise RecordingError(
                f"{path}: its format is {kind.format[:100]!r}, not {FORMAT!r}",
                hint="Name a folder that Steepest recorded.",
            )
        if kind.version != VERSION:
            raise RecordingError(
                f"{path}: the recording has version {kind.version} of the format; this program reads {VERSION}",
                hint="Read it with the release of Steepest that wrote it.",
            )
        return decode(data, Recording)
    except UntrustedError as error:
        raise RecordingError(f"{path}: is not what Steepest writes: {error}", hint="Restore the file.") from error

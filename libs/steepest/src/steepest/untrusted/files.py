"""Opens, bounds and lists files that others write, and puts files where others may write too.

It owns how a path is walked: below a folder that is trusted no link is followed in any part of it, nothing is opened that is
no regular file, and no call waits for whoever holds the other end. It must never know what a file means.

Every function takes ``below``, the folder from which on nothing is trusted; ``below`` itself may be reached by links.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from steepest.errors import UntrustedError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_CHUNK_BYTES = 1 << 16
_MESSAGE_MOST = 500


class Entry(NamedTuple):
    """One thing in a folder.

    Attributes:
        name: Its path below the folder, with ``/`` between folders.
        stat: Of itself, also where it is a link.
    """

    name: str
    stat: os.stat_result

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.stat.st_mode)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, and no link to one."""
        return stat.S_ISDIR(self.stat.st_mode)


def open_file(path: Path, *, below: Path) -> int:
    """A descriptor of a regular file, for reading; the caller closes it.

    Raises:
        FileNotFoundError: It is not there.
        UntrustedError: It is no regular file, a link leads to it, or it cannot be opened.
    """
    with folder_of(path, below=below) as folder:
        return open_in(folder, path)


def open_in(folder: int, path: Path) -> int:
    """Likewise, of a file in an open folder; of ``path`` only the name counts, and the message."""
    with _named(path):
        # Opening is an act: it starts a watchdog, rewinds a tape. So it is looked at before, and again what was opened.
        _refuse_unless_regular(path, os.stat(path.name, dir_fd=folder, follow_symlinks=False))
        descriptor = os.open(path.name, _FILE, dir_fd=folder)
        try:
            _refuse_unless_regular(path, os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def read(path: Path, *, below: Path, most: int) -> bytes:
    """A whole file of at most ``most`` bytes.

    Raises:
        FileNotFoundError: It is not there.
        UntrustedError: As ``open_file``, or it is larger.
    """
    descriptor = open_file(path, below=below)
    try:
        with _named(path):
            content = b""
            while len(content) <= most and (more := os.pread(descriptor, _CHUNK_BYTES, len(content))):
                content += more
    finally:
        os.close(descriptor)
    if len(content) > most:
        raise UntrustedError(f"{path} is larger than {most} bytes")
    return content


def walk(folder: Path, *, below: Path, most: int, deepest: int) -> Iterator[Entry]:
    """What is in a folder and in the folders in it, what is nearest first; links are given and not followed.

    Args:
        folder: Where to begin.
        below: As everywhere here.
        most: Of how many entries it gives.
        deepest: How many folders it goes down; 1 lists the folder alone.

    Raises:
        FileNotFoundError: The folder is not there.
        UntrustedError: A link leads to it, it cannot be read, or it holds more or goes deeper.
    """
    waiting = deque([""])
    count = 0
    while waiting:
        name = waiting.popleft()
        for entry in _listed(folder, name, below, most - count + 1):
            count += 1
            if count > most:
                raise UntrustedError(f"{folder} holds more than {most} entries")
            if entry.is_folder and deepest > 1:
                if entry.name.count("/") + 2 > deepest:
                    raise UntrustedError(f"{folder} goes deeper than {deepest} folders")
                waiting.append(entry.name)
            yield entry


def _listed(folder: Path, name: str, below: Path, most: int) -> list[Entry]:
    path = folder / name
    entries = []
    with folder_of(path / "x", below=below) as descriptor, _named(path), os.scandir(descriptor) as found:
        for one in itertools.islice(found, most):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                entries.append(Entry(f"{name}/{one.name}" if name else one.name, one.stat(follow_symlinks=False)))
    return entries


def replace(path: Path, content: bytes, *, below: Path) -> None:
    """Write a file aside and rename it into place, where others may write too.

    Raises:
        OSError: It is not in place, because a link leads to its folder, say; what was there before still is.
    """
    aside = f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}"
    with _as_os_error(), folder_of(path, below=below) as folder:
        try:
            descriptor = os.open(
                aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder
            )
            with open(descriptor, "wb") as file:  # noqa: PTH123 - it has no path, but a descriptor
                file.write(content)
            os.rename(aside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(aside, dir_fd=folder)
            raise


def remove(path: Path, *, below: Path) -> None:
    """Remove a file, or nothing where it is not there.

    Raises:
        OSError: It is still there.
    """
    with contextlib.suppress(FileNotFoundError), _as_os_error(), folder_of(path, below=below) as folder:
        os.unlink(path.name, dir_fd=folder)


@contextlib.contextmanager
def folder_of(path: Path, *, below: Path) -> Iterator[int]:
    """The descriptor of the folder that a path is in.

    Raises:
        FileNotFoundError: It is not there.
        UntrustedError: A link leads to it, or it is none.
    """
    *parents, _ = _parts(path, below)
    descriptor = os.open(below, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for parent in parents:
            with _named(path):
                inner = os.open(parent, _FOLDER, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def _parts(path: Path, below: Path) -> tuple[str, ...]:
    try:
        parts = path.relative_to(below).parts
    except ValueError as error:
        raise UntrustedError(f"{path} is not below {below}") from error
    if not parts or ".." in parts:
        raise UntrustedError(f"{path} leads out of {below}")
    return parts


def _refuse_unless_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UntrustedError(f"{path} is no regular file")


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    """Who writes is told of a failure as of any other one: that the disk is full, say."""
    try:
        yield
    except UntrustedError as error:
        raise OSError(errno.ENOTDIR, str(error)) from error


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """What the system refuses becomes this module's error; what is not there stays absent, what we lack stays ours."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        reason = "a link leads to it" if error.errno in (errno.ELOOP, errno.EMLINK) else str(error.strerror)
        raise UntrustedError(f"{path}: {reason}"[:_MESSAGE_MOST]) from error

"""Opens, bounds and lists files that others write, and writes files to folders that others may write to.

It owns the traversal of a path: below a trusted folder no link is followed in any part of the path, only regular files are
opened, and no call blocks on the other end of a pipe. It must never know what a file means.

Every function takes ``below``, the folder below which nothing is trusted; ``below`` itself may be reached through links.
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
    """An entry of a folder.

    Attributes:
        name: Its path relative to the folder, separated by ``/``.
        stat: Its own status, even if it is a link.
    """

    name: str
    stat: os.stat_result

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self.stat.st_mode)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, and not a link to one."""
        return stat.S_ISDIR(self.stat.st_mode)


def open_file(path: Path, *, below: Path) -> int:
    """Open a regular file for reading and return its descriptor; the caller closes it.

    Raises:
        FileNotFoundError: It is not there.
        UntrustedError: It is not a regular file, its path contains a link, or it cannot be opened.
    """
    with folder_of(path, below=below) as folder:
        return open_in(folder, path)


def open_in(folder: int, path: Path) -> int:
    """The same for a file in an open folder; only the last part of ``path`` is used, the rest is for messages."""
    with _named(path):
        # Opening a device has side effects (it starts a watchdog, rewinds a tape), so check before opening; and check the
        # opened file, because the path may have been replaced in between.
        _refuse_unless_regular(path, os.stat(path.name, dir_fd=folder, follow_symlinks=False))
        descriptor = os.open(path.name, _FILE, dir_fd=folder)
        try:
            _refuse_unless_regular(path, os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def read(path: Path, *, below: Path, most: int) -> bytes:
    """Read a whole file of at most ``most`` bytes.

    Raises:
        FileNotFoundError: It is not there.
        UntrustedError: As for ``open_file``, or it is larger.
    """
    descriptor = open_file(path, below=below)
    try:
        return content_of(descriptor, path, most=most)
    finally:
        os.close(descriptor)


def content_of(descriptor: int, path: Path, *, most: int) -> bytes:
    """The same of an open file; ``path`` is for messages."""
    content = bytearray()
    with _named(path):
        while len(content) <= most and (more := os.pread(descriptor, _CHUNK_BYTES, len(content))):
            content += more
    if len(content) > most:
        raise UntrustedError(f"{path} is larger than {most} bytes")
    return bytes(content)


def walk(folder: Path, *, below: Path, most: int, deepest: int) -> Iterator[Entry]:
    """Yield the entries of a folder tree, breadth first; links are listed but not followed.

    Args:
        folder: The root of the tree.
        below: Nothing below this folder is trusted.
        most: Maximum number of entries.
        deepest: Maximum depth; 1 lists only the folder itself.

    Raises:
        FileNotFoundError: The folder is not there.
        UntrustedError: Its path contains a link, it cannot be read, or it exceeds a maximum.
    """
    waiting = deque([""])
    count = 0
    while waiting:
        name = waiting.popleft()
        for entry in _listed(folder, name, below, most - count + 1):
            count += 1
            if count > most:
                raise UntrustedError(f"{folder} has more than {most} entries")
            if entry.is_folder and deepest > 1:
                if entry.name.count("/") + 2 > deepest:
                    raise UntrustedError(f"{folder} is nested deeper than {deepest} folders")
                waiting.append(entry.name)
            yield entry


def _listed(folder: Path, name: str, below: Path, most: int) -> list[Entry]:
    path = folder / name
    entries = []
    with folder_of(path / "x", below=below) as descriptor, _named(path), os.scandir(descriptor) as found:
        for one in itertools.islice(found, most):
            with contextlib.suppress(FileNotFoundError):  # removed in the meantime
                entries.append(Entry(f"{name}/{one.name}" if name else one.name, one.stat(follow_symlinks=False)))
    return entries


def replace(path: Path, content: bytes, *, below: Path) -> None:
    """Atomically write a file to a folder that others may write to.

    Raises:
        OSError: It was not written, for example because its path contains a link; the previous file is still there.
    """
    temporary = f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}"
    with _as_os_error(), folder_of(path, below=below) as folder:
        try:
            descriptor = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder
            )
            with open(descriptor, "wb") as file:  # noqa: PTH123 - it has no path, but a descriptor
                file.write(content)
            os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise


def remove(path: Path, *, below: Path) -> None:
    """Remove a file if it exists.

    Raises:
        OSError: It is still there.
    """
    with contextlib.suppress(FileNotFoundError), _as_os_error(), folder_of(path, below=below) as folder:
        os.unlink(path.name, dir_fd=folder)


@contextlib.contextmanager
def folder_of(path: Path, *, below: Path) -> Iterator[int]:
    """Open the folder that contains a path, and yield its descriptor.

    Raises:
        FileNotFoundError: It is not there.
        UntrustedError: Its path contains a link, or it is not a folder.
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
    if "\0" in str(path):
        raise UntrustedError(f"{path} contains a NUL")
    return parts


def _refuse_unless_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UntrustedError(f"{path} is not a regular file")


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    """Report an untrusted path to a writer as an OSError, like a full disk."""
    try:
        yield
    except UntrustedError as error:
        raise OSError(errno.ENOTDIR, str(error)) from error


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Turn an OSError into an UntrustedError, except a missing file and a lack of resources in this process."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        reason = "its path contains a link" if error.errno in (errno.ELOOP, errno.EMLINK) else str(error.strerror)
        raise UntrustedError(f"{path}: {reason}"[:_MESSAGE_MOST]) from error

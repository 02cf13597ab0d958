"""Copies a container's output into its incarnation's ``output.log``, every byte exactly once.

It owns the copying. The engine keeps the whole output, so a copy that was interrupted (a full disk, an engine or
adapter that died) resumes at the end of the file. If several adapters share a state folder, one copies: it holds the
file's lock, which the kernel releases when it dies. Its calls block.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from typing import Any

import requests
from docker.errors import APIError, DockerException, NotFound

from steepest.cluster.docker.host import Host, closed_at_the_end
from steepest.cluster.folders import incarnation_locks
from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.logger import Logger

_log = Logger()
_HANDOVER_S = 5.0  # copying an ended container's last lines takes milliseconds


class Output:
    """Follows one container's output on its own thread."""

    def __init__(self, host: Host, folder: IncarnationFolder, container: str) -> None:
        self._host = host
        self._folder = folder
        self._container = container
        self._stream: Any = None
        self._leave = False
        self.is_over = False
        self._thread = threading.Thread(target=self._follow, name=f"output-{container[:60]}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop copying; another adapter may continue."""
        self._leave = True
        if self._stream is not None:
            with contextlib.suppress(OSError, AttributeError, DockerException):
                self._stream.close()

    def _follow(self) -> None:
        try:
            with _lock(self._folder, patience_s=0.0) as file:
                if file is not None:
                    self._copy(file)
        except (DockerException, requests.RequestException, OSError, ValueError, AttributeError) as error:
            if not self._leave:
                _log.info("output copy interrupted", incarnation=str(self._folder), why=str(error))
        finally:
            self.is_over = True

    def _copy(self, file: int) -> None:
        with closed_at_the_end(self._host.client(None).logs(self._container, stream=True, follow=True)) as stream:
            self._stream = stream
            if not self._leave:
                append(file, stream)


def complete(host: Host, folder: IncarnationFolder, container: str) -> None:
    """Copy the missing part of an ended container's output.

    Raises:
        OSError: The disk is full, for example, or another adapter copies for longer than ``_HANDOVER_S``.
        DockerException, requests.RequestException: The engine does not answer.
    """
    with _lock(folder, patience_s=_HANDOVER_S) as file:
        if file is None:
            raise TimeoutError(f"another process copies the output of {folder}")
        try:
            with closed_at_the_end(host.client().logs(container, stream=True, follow=False)) as stream:
                append(file, stream)
        except NotFound:
            return
        except APIError as error:
            raise OSError(f"{host} does not return the output of {folder}: {error}") from error


def append(file: int, chunks: Iterator[bytes]) -> None:
    """Append the stream, skipping as many bytes as the file already has."""
    skip = os.fstat(file).st_size
    for chunk in chunks:
        rest = memoryview(chunk)[min(skip, len(chunk)) :]
        skip -= len(chunk) - len(rest)
        while rest:
            rest = rest[os.write(file, rest) :]


@contextlib.contextmanager
def _lock(folder: IncarnationFolder, *, patience_s: float) -> Iterator[int | None]:
    """The output file, locked and open for appending; None if another process copies."""
    file = incarnation_locks.take(folder.output, patience_s)
    try:
        if file is not None:
            fcntl.fcntl(file, fcntl.F_SETFL, fcntl.fcntl(file, fcntl.F_GETFL) | os.O_APPEND)
        yield file
    finally:
        if file is not None:
            os.close(file)

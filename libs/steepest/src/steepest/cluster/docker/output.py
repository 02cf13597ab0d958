"""Copies a container's output into its incarnation's folder, until the container ends.

It owns the asking: how much of the output is read at a time, and where reading goes on. The engine keeps the newest
part (``LOG_OPTIONS``). A container that prints faster than is copied is read piece by piece, each from where the one before
ended; what the engine has removed by then is missing, and ``OutputCopy`` says so. Its calls block.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from docker.errors import APIError, DockerException, NotFound

from steepest.clock import SystemClock
from steepest.cluster.copy_pace import CopyPace
from steepest.cluster.docker.host import STREAM_FAILED, Host, closed_at_the_end
from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.output_copy import OutputCopy
from steepest.logger import Logger

LOG_OPTIONS = {"max-size": "64m", "max-file": "2"}
"""Files of the engine's own log. One would be cut where it is read; of three, a slow follower would miss the second."""

_log = Logger()
_HANDOVER_S = 5.0  # copying an ended container's last lines takes milliseconds
_REST_S = 5.0
"""What ended containers have left is copied for so long, a hundred thousand lines; of the rest the newest ones."""

_LAST_LINES = 50_000
_LINE_BYTES = 256
"""The cost of a line in addition to its bytes."""


class Output:
    """Follows one container's output on its own thread."""

    def __init__(self, host: Host, folder: IncarnationFolder, container: str) -> None:
        self._host = host
        self._folder = folder
        self._container = container
        self._stream: Any = None
        self._leave = threading.Event()
        self._pace = CopyPace(SystemClock())
        self.is_over = False
        self._thread = threading.Thread(target=self._follow, name=f"output-{container[:60]}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop copying; another adapter may continue."""
        self._leave.set()
        if self._stream is not None:
            with contextlib.suppress(OSError, AttributeError, DockerException):
                self._stream.close()

    def _follow(self) -> None:
        try:
            while self._copy():
                self._leave.wait(self._pace.pause_s())
        except STREAM_FAILED as error:
            if not self._leave.is_set():
                _log.info("output copy interrupted", incarnation=str(self._folder), why=str(error))
        finally:
            self.is_over = True

    def _copy(self) -> bool:
        """Copy until the output ends, or as much as is allowed without a pause; whether there may be more."""
        copy = None if self._leave.is_set() else OutputCopy.locked(self._folder, 0.0)
        if copy is None:
            return False
        self._pace.begin()
        with contextlib.closing(copy), _printed(self._host.client(None), self._container, copy, follow=True) as stream:
            self._stream = stream
            return not self._leave.is_set() and append(copy, stream, self._is_enough)

    def _is_enough(self, size: int, is_new: bool) -> bool:  # noqa: FBT001 - as append calls it
        return self._pace.is_enough(size + _LINE_BYTES, is_new=is_new)


def complete(host: Host, folder: IncarnationFolder, container: str) -> None:
    """Copy the missing part of an ended container's output.

    Raises:
        OSError: The disk is full, for example, or another adapter copies for longer than ``_HANDOVER_S``.
        DockerException, requests.RequestException: The engine does not answer.
    """
    copy = OutputCopy.locked(folder, _HANDOVER_S)
    if copy is None:
        raise TimeoutError(f"another process copies the output of {folder}")
    until = time.monotonic() + _REST_S
    with contextlib.closing(copy):
        try:
            with _printed(host.client(), container, copy, follow=False) as stream:
                has_more = append(copy, stream, lambda *_: time.monotonic() > until)
            if has_more:
                with _printed(host.client(), container, copy, follow=False, tail=_LAST_LINES) as stream:
                    append(copy, stream, lambda *_: False)
        except NotFound:
            return
        except APIError as error:
            raise OSError(f"{host} does not return the output of {folder}: {error}") from error


def append(copy: OutputCopy, lines: Iterator[bytes], is_enough: Callable[[int, bool], bool]) -> bool:
    """Append lines, each with its time before it, until they end or it is enough; returns whether there may be more.

    Args:
        copy: Where to.
        lines: As an engine sends them.
        is_enough: Asked about each line's size and whether it is new.
    """
    for line in lines:
        at, _, text = line.partition(b" ")
        if is_enough(len(line), copy.add(at.decode(errors="replace"), text)):
            return True
    return False


@contextlib.contextmanager
def _printed(client: Any, container: str, copy: OutputCopy, **how: Any) -> Iterator[Any]:
    """What was printed from where copying goes on, as the engine sends it: a line at a time, long ones in pieces."""
    printed = client.logs(container, stream=True, timestamps=True, since=copy.begin(), **how)
    with closed_at_the_end(printed) as stream:
        yield stream

"""Follows an engine's events: which of our containers started or ended.

It owns one thread per engine and must never know what an event means for a replica. An event is a hint: its receiver
observes the container. Events may have been missed while there was no stream, so a new stream means: observe all containers.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from docker.errors import DockerException

from steepest.cluster.docker.container import LABEL
from steepest.cluster.docker.host import STREAM_FAILED, Host, closed_at_the_end
from steepest.logger import Logger

_log = Logger()
_RETRY_S = 0.2
_RETRY_S_MOST = 2.0


class Events:
    """Follows an engine's events until closed.

    Args:
        label: The label of this state folder's containers.
        happened: Called on the thread with a container's name, or with None if any events may have been missed.
    """

    def __init__(self, host: Host, label: str, happened: Callable[[str | None], None]) -> None:
        self._host = host
        self._filters = {"type": "container", "label": f"{LABEL}={label}"}
        self._happened = happened
        self._leave = threading.Event()
        self._stream: Any = None
        threading.Thread(target=self._follow, name=f"events-{host.node.name}", daemon=True).start()

    def close(self) -> None:
        """Stop the thread."""
        self._leave.set()
        self.renew()

    def renew(self) -> None:
        """Reopen the stream: the engine was away, which a dead connection may not show."""
        if self._stream is not None:
            with contextlib.suppress(OSError, AttributeError, DockerException):
                self._stream.close()

    def _follow(self) -> None:
        retry_s = _RETRY_S
        while not self._leave.is_set():
            try:
                with closed_at_the_end(self._host.client(None).events(filters=self._filters, decode=True)) as stream:
                    self._stream = stream
                    retry_s = _RETRY_S
                    self._happened(None)
                    for event in stream:
                        self._happened(event.get("Actor", {}).get("Attributes", {}).get("name"))
            except STREAM_FAILED as error:
                _log.debug("no events", engine=str(self._host), why=str(error))
                retry_s = min(retry_s * 2, _RETRY_S_MOST)
            self._host.seen_since = None
            self._leave.wait(retry_s)

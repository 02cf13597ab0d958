"""An engine's events: which of our containers began or ended, as it happens.

It owns one thread an engine and must never know what an event means to a replica. An event is a hint, and whoever gets one
looks for themselves; while there was no stream anything may have happened, so a new one says: look at all.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import requests
import structlog
from docker.errors import DockerException

from steepest.cluster.docker.container import LABEL, UNSEEN
from steepest.cluster.docker.host import Host

_log = structlog.get_logger(__name__)
_AGAIN_S = 0.2
_AGAIN_S_MOST = 2.0


class Events:
    """Follows an engine's events until closed.

    Args:
        label: Marks what is ours.
        happened: Called on the thread with a container's name; with None where anything may have happened.
    """

    def __init__(self, host: Host, label: str, happened: Callable[[str | None], None]) -> None:
        self._host = host
        self._filters = {"type": "container", "label": f"{LABEL}={label}"}
        self._happened = happened
        self._leave = threading.Event()
        self._stream: Any = None
        threading.Thread(target=self._follow, name=f"events-{host.node.name}", daemon=True).start()

    def close(self) -> None:
        """Leave at once."""
        self._leave.set()
        self.renew()

    def renew(self) -> None:
        """Open the stream again: the engine was away, and nobody may have told this one."""
        if self._stream is not None:
            with contextlib.suppress(OSError, AttributeError, DockerException):
                self._stream.close()

    def _follow(self) -> None:
        again_s = _AGAIN_S
        while not self._leave.is_set():
            try:
                self._stream = self._host.client(None).events(filters=self._filters, decode=True)
                again_s = _AGAIN_S
                self._happened(None)
                for event in self._stream:
                    self._take(event)
            except (DockerException, requests.RequestException, OSError, ValueError, AttributeError) as error:
                _log.debug("no events", engine=str(self._host), why=str(error))
                again_s = min(again_s * 2, _AGAIN_S_MOST)
            self._leave.wait(again_s)

    def _take(self, event: Any) -> None:
        said = event.get("Actor", {}).get("Attributes", {})
        if event.get("Action") == "die" and said.get("exitCode") == str(UNSEEN):
            self._host.ends_seen.add(str(event["Actor"]["ID"]))
        self._happened(said.get("name"))

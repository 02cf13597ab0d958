"""A bound on the open connections of a server: of too many, the one that has been silent longest is closed.

It owns which connections are open, and which of them ends. It must never know what is asked over them. A peer that opens
connections and sends nothing, or half a request, then costs the others nothing, and never all open files of the process.
"""

from __future__ import annotations

import errno
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from steepest.errors import InputError

WAITING = 256
"""Connections that the kernel keeps until they are accepted, and the most that are accepted at a time."""

OTHER_FILES = 2 * WAITING
"""Open files that a process keeps for everything but its connections."""

UNREAD_MS = 45_000
"""After so long, the kernel drops a connection whose other end takes nothing."""

_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_S = 0.01

Accepted = tuple[socket.socket, Any]


class ConnectionBound:
    """The open connections of a server. Threads may share it.

    A connection is silent from its beginning until a whole request has come over it, and again once that is answered.
    """

    def __init__(self, most: int) -> None:
        """``most`` connections stay open."""
        self._most = most
        self._silent: dict[Any, tuple[float, socket.socket]] = {}  # by the peer's address, the longest silent one first
        self._asked: dict[Any, socket.socket] = {}
        self._lock = threading.Lock()

    def accept(self, accept: Callable[[], Accepted]) -> Accepted:
        """The next connection, from ``accept`` of the socket that listens.

        Raises:
            BlockingIOError: There is none now, or the process has no descriptor for it; the longest silent one was closed.
        """
        try:
            accepted, address = accept()
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            self.end_silent()
            time.sleep(_PAUSE_S)
            # It waits in the kernel's queue. asyncio would log an error for each one that does.
            raise BlockingIOError(error.errno, error.strerror) from error
        connection = _Connection(self, accepted, address[:2])
        with self._lock:
            self._silent[address[:2]] = time.monotonic(), connection
            is_full = len(self._silent) + len(self._asked) > self._most
        if is_full:
            self.end_silent()
        return connection, address

    def asks(self, peer: Any) -> None:
        """A whole request has come from this address."""
        with self._lock:
            if peer in self._silent:
                self._asked[peer] = self._silent.pop(peer)[1]

    def is_answered(self, peer: Any) -> None:
        """It is answered: the connection is silent from now on."""
        with self._lock:
            if peer in self._asked:
                self._silent[peer] = time.monotonic(), self._asked.pop(peer)

    def forget(self, peer: Any, connection: socket.socket) -> None:
        """It is closed; another one may have its address already."""
        with self._lock:
            if self._asked.get(peer) is connection:
                del self._asked[peer]
            elif peer in self._silent and self._silent[peer][1] is connection:
                del self._silent[peer]

    def end_silent(self, longer_than_s: float = 0.0) -> bool:
        """Close the connection that has been silent longest, if it has been for so long; return whether there was one."""
        with self._lock:
            peer, (since, oldest) = next(iter(self._silent.items()), (None, (0.0, None)))
            if oldest is None or time.monotonic() - since < longer_than_s:
                return False
            del self._silent[peer]
        with suppress(OSError):
            oldest.shutdown(socket.SHUT_RDWR)  # who reads it reads its end, and closes it
        return True


class _Connection(socket.socket):
    """A connection that its bound knows for as long as it is open."""

    def __init__(self, bound: ConnectionBound, accepted: socket.socket, peer: Any) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self._bound, self._peer = bound, peer

    def close(self) -> None:
        self._bound.forget(self._peer, self)
        super().close()


class BoundedListener(socket.socket):
    """A socket whose connections are bounded; for servers of asyncio, which accept by themselves."""

    def __init__(self, host: str, port: int, bound: ConnectionBound) -> None:
        """Listen.

        Raises:
            InputError: The port is taken or not ours to open, or the host is none of this machine's.
        """
        super().__init__(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        self._bound = bound
        self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "linux":
            self.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_MS)
        try:
            self.bind((host, port))
            self.listen(WAITING)
        except OSError as error:
            self.close()
            raise InputError(f"cannot serve on {host}:{port}: {error.strerror}", hint="name another port") from error
        self.setblocking(False)  # noqa: FBT003 - the standard library's form

    def accept(self) -> Accepted:
        """See ``socket.socket.accept`` and :meth:`ConnectionBound.accept`."""
        return self._bound.accept(super().accept)


def most_connections(wanted: int) -> int:
    """How many connections this process may hold: as many as are wanted, or as its limit of open files allows.

    A soft limit that is too low is raised as far as it may be. Half of the files are for connections at least.
    """
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (sys.maxsize if one == resource.RLIM_INFINITY else one for one in limits)
    files = max(soft, min(hard, wanted + OTHER_FILES))
    if files > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, limits[1]))
    return min(wanted, max(files // 2, files - OTHER_FILES))

"""How the processes of a gang reach each other: all others call rank 0 and say who they are.

It owns the greeting and what makes a dead peer known. It must never know what is sent afterwards.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence

CONNECT_S = 300.0
"""How long to wait for peers that start later."""

SILENCE_S = 660.0
"""How long a peer may be silent: the chief may hold a checkpoint for ten minutes. A dead peer is noticed long before."""

GREETING_S = 5.0
"""How long one that has connected may take to say who it is."""

GREETING = struct.Struct("!4sII")
"""Magic, rank and world size."""

_MAGIC = b"sgd2"
_RETRY_S = 0.05
_KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}  # seconds, seconds, probes


class PeerLost(ConnectionError):  # noqa: N818 - named by what happened to it
    """A peer has closed its connection, is silent for too long, or was never there."""


def call(rank: int, peers: Sequence[tuple[str, int]], patience_s: float) -> socket.socket:
    """A connection to rank 0, which may not listen yet.

    Raises:
        PeerLost: It does not answer in time.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            link = socket.create_connection(peers[0], timeout=GREETING_S)
            keep_alive(link)
            link.sendall(GREETING.pack(_MAGIC, rank, len(peers)))
        except OSError as error:
            if time.monotonic() >= deadline:
                raise PeerLost(f"rank 0 does not answer at {peers[0]}: {error}") from error
            time.sleep(_RETRY_S)
        else:
            return link


def listen(peers: Sequence[tuple[str, int]]) -> socket.socket:
    """Rank 0's server: on loopback if that is its address, otherwise on every address of its machine."""
    host, port = peers[0]
    return socket.create_server((host if host.startswith("127.") else "", port))


def caller(greeting: bytes, world_size: int) -> int | None:
    """The rank of a peer of the same gang; None if it is none."""
    magic, rank, size = GREETING.unpack(greeting)
    return rank if (magic, size) == (_MAGIC, world_size) and 0 < rank < world_size else None


def read(link: socket.socket, count: int) -> bytes:
    """Read ``count`` bytes.

    Raises:
        OSError: They do not come; ``PeerLost`` if the connection was closed.
    """
    content = bytearray(count)
    rest = memoryview(content)
    while rest:
        received = link.recv_into(rest)
        if not received:
            raise PeerLost("a peer has closed its connection")
        rest = rest[received:]
    return bytes(content)


def keep_alive(link: socket.socket) -> None:
    """Notice within half a minute that the peer's machine has failed."""
    link.settimeout(SILENCE_S)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

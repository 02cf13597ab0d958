"""Sums arrays over the processes of a gang: each sends its own to rank 0, which sends the sum back to all.

It owns connections and messages; it must never know a model. A star suits the few hundred kilobytes of the demo's models and
few processes; large ones use a ring (Patarasuk, Yuan 2009, "Bandwidth optimal all-reduce algorithms").

A message is a header and the array. Its length is that of the receiver's own array, and it must be of the same step: a
process that sends anything else is not a peer.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

CONNECT_S = 300.0
"""How long to wait for peers that start later."""

SILENCE_S = 660.0
"""How long a peer may be silent: the chief may hold a checkpoint for ten minutes. A dead peer is noticed long before."""

_GREETING_S = 5.0
_RETRY_S = 0.05
_LOOK_S = 0.2
_KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}  # seconds, seconds, probes
_HEADER = struct.Struct("!4sIIQQ")  # magic, rank, world size, step, values
_MAGIC = b"sgd1"

Vector = NDArray[np.float64]


class PeerLost(ConnectionError):  # noqa: N818 - named by what happened to it
    """A peer has closed its connection, is silent for too long, or was never there."""


class AllReduce:
    """One process of a gang.

    Args:
        rank: Its rank.
        world_size: The number of processes.
        links: Connections: of rank 0 to each other rank in order, of another rank to rank 0.
    """

    def __init__(self, rank: int, world_size: int, links: Sequence[socket.socket]) -> None:
        self._rank = rank
        self._world_size = world_size
        self._links = links

    def sum(self, step: int, values: Vector) -> Vector:
        """The sum of all processes' ``values`` of a step, added in the order of ranks; the same bits for all.

        Raises:
            PeerLost: The sum is not known.
        """
        try:
            if self._rank:
                self._send(self._links[0], step, values)
                return self._receive(self._links[0], 0, step, len(values))
            total = values.copy()
            for rank, link in enumerate(self._links, 1):
                total += self._receive(link, rank, step, len(values))
            for link in self._links:
                self._send(link, step, total)
        except OSError as error:
            raise PeerLost(f"step {step}: {error}") from error
        return total

    def _send(self, link: socket.socket, step: int, values: Vector) -> None:
        link.sendall(_HEADER.pack(_MAGIC, self._rank, self._world_size, step, len(values)) + values.tobytes())

    def _receive(self, link: socket.socket, rank: int, step: int, count: int) -> Vector:
        header = _HEADER.unpack(_read(link, _HEADER.size))
        if header != (_MAGIC, rank, self._world_size, step, count):
            raise PeerLost(f"rank {rank} sent {header[1:]}, not {(rank, self._world_size, step, count)}")
        return np.frombuffer(_read(link, 8 * count), np.float64)


@contextlib.contextmanager
def connected(
    rank: int,
    peers: Sequence[tuple[str, int]],
    *,
    patience_s: float = CONNECT_S,
    while_waiting: Callable[[], object] = lambda: None,
) -> Iterator[AllReduce]:
    """Connect the processes of a gang.

    Args:
        rank: The rank of this one.
        peers: Host and port of each rank; empty for a process that is alone.
        patience_s: How long to wait for all.
        while_waiting: Called several times a second while rank 0 waits for the others.

    Raises:
        PeerLost: Not all were there in time.
    """
    with contextlib.ExitStack() as links:
        if rank:
            found = [links.enter_context(_called(rank, peers, patience_s))]
        else:
            found = [
                links.enter_context(link)
                for link in (_answered(peers, patience_s, while_waiting) if len(peers) > 1 else [])
            ]
        for link in found:
            _keep_alive(link)
        yield AllReduce(rank, max(1, len(peers)), found)


def _called(rank: int, peers: Sequence[tuple[str, int]], patience_s: float) -> socket.socket:
    """A connection to rank 0, which may not listen yet."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            link = socket.create_connection(peers[0], timeout=_GREETING_S)
        except OSError as error:
            if time.monotonic() >= deadline:
                raise PeerLost(f"rank 0 does not answer at {peers[0]}: {error}") from error
            time.sleep(_RETRY_S)
        else:
            link.sendall(_HEADER.pack(_MAGIC, rank, len(peers), 0, 0))
            return link


def _answered(
    peers: Sequence[tuple[str, int]], patience_s: float, while_waiting: Callable[[], object]
) -> list[socket.socket]:
    """A connection from each other rank, in order. Who does not greet as a peer is sent away."""
    deadline = time.monotonic() + patience_s
    found: dict[int, socket.socket] = {}
    host, port = peers[0]
    with contextlib.ExitStack() as unless_all:
        server = unless_all.enter_context(socket.create_server((host if host.startswith("127.") else "", port)))
        while len(found) < len(peers) - 1:
            while_waiting()
            server.settimeout(_LOOK_S)
            try:
                link = unless_all.enter_context(server.accept()[0])
            except TimeoutError as error:
                if time.monotonic() < deadline:
                    continue
                missing = sorted(set(range(1, len(peers))) - set(found))
                raise PeerLost(f"ranks {missing} have not called at {peers[0]}") from error
            rank = _greeting(link, len(peers))
            if rank is None or rank in found:
                link.close()
            else:
                found[rank] = link
        server.close()
        unless_all.pop_all()
    return [found[rank] for rank in range(1, len(peers))]


def _greeting(link: socket.socket, world_size: int) -> int | None:
    """The rank of a peer of the same gang; None if it is none."""
    link.settimeout(_GREETING_S)
    try:
        magic, rank, size, *rest = _HEADER.unpack(_read(link, _HEADER.size))
    except OSError:
        return None
    return rank if (magic, size, rest) == (_MAGIC, world_size, [0, 0]) and 0 < rank < world_size else None


def _read(link: socket.socket, count: int) -> bytes:
    content = bytearray(count)
    rest = memoryview(content)
    while rest:
        received = link.recv_into(rest)
        if not received:
            raise PeerLost("a peer has closed its connection")
        rest = rest[received:]
    return bytes(content)


def _keep_alive(link: socket.socket) -> None:
    """Notice within half a minute that the peer's machine is gone."""
    link.settimeout(SILENCE_S)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

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

from steepest_lab.jobs.gangs import star
from steepest_lab.jobs.gangs.star import CONNECT_S, PeerLost

_LOOK_S = 0.2
_HEADER = struct.Struct("!4sIIQQ")  # magic, rank, world size, step, values
_MAGIC = b"sgd1"

Vector = NDArray[np.float64]


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
        header = _HEADER.unpack(star.read(link, _HEADER.size))
        if header != (_MAGIC, rank, self._world_size, step, count):
            raise PeerLost(f"rank {rank} sent {header[1:]}, not {(rank, self._world_size, step, count)}")
        return np.frombuffer(star.read(link, 8 * count), np.float64)


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
            found = [links.enter_context(star.call(rank, peers, patience_s))]
        else:
            found = [
                links.enter_context(link)
                for link in (_answered(peers, patience_s, while_waiting) if len(peers) > 1 else [])
            ]
        yield AllReduce(rank, max(1, len(peers)), found)


def _answered(
    peers: Sequence[tuple[str, int]], patience_s: float, while_waiting: Callable[[], object]
) -> list[socket.socket]:
    """A connection from each other rank, in order. Who does not greet as a peer is sent away."""
    deadline = time.monotonic() + patience_s
    found: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as unless_all:
        server = unless_all.enter_context(star.listen(peers))
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
    link.settimeout(star.GREETING_S)
    try:
        rank = star.caller(star.read(link, star.GREETING.size), world_size)
    except OSError:
        return None
    star.keep_alive(link)
    return rank

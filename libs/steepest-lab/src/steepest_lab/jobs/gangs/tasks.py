"""A server gives out tasks, and workers send back their results: sums of gradients, computed with the task's parameters.

It owns connections and messages; it must never know a model, nor which tasks there are. The server waits for all workers at
the same time, so that one that hangs does not keep the others from work. A worker knows nothing between two tasks: any
number of them may come and go.

A task is a header and the parameters; a result is the same header and the sums. Their lengths are those of the receiver's
own arrays: a process that sends anything else is not a peer.
"""

from __future__ import annotations

import contextlib
import functools
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steepest_lab.jobs.datasets import Array
from steepest_lab.jobs.gangs import star
from steepest_lab.jobs.gangs.star import PeerLost

Vector = NDArray[np.float64]

LEAVE_S = 10.0
"""How long the server waits at the end for workers to have taken note of it."""

_LOOK_S = 0.1
_CHUNK_BYTES = 1 << 20
_HEADER = struct.Struct("!4sQIIQ")  # magic, step, first batch, stride, values
_MAGIC = b"ps01"


class GradientTask(NamedTuple):
    """The batches ``first``, ``first + stride``, … of a step; step 0: there are no more tasks."""

    step: int
    first: int
    stride: int


OVER = GradientTask(0, 0, 1)


@dataclass
class _Link:
    """A connection to a worker; its rank is 0 until it has said which one it is."""

    socket: socket.socket
    since: float
    rank: int = 0
    task: GradientTask | None = None
    outgoing: memoryview = field(default_factory=lambda: memoryview(b""))
    incoming: bytearray = field(default_factory=bytearray)


class TaskServer:
    """The server's side.

    Args:
        server: Where it listens.
        world_size: The number of processes of the gang, its own included.
        values: The number of values of a result.
        while_waiting: Called several times a second while it waits.

    Attributes:
        lost: Workers that were there and are gone, with why, until somebody takes note.
    """

    def __init__(
        self, server: socket.socket, world_size: int, values: int, while_waiting: Callable[[], object] = lambda: None
    ) -> None:
        self.lost: dict[int, str] = {}
        self.while_waiting = while_waiting
        self._world_size = world_size
        self._values = values
        self._links: dict[int, _Link] = {}  # by file descriptor
        self._results: list[tuple[int, GradientTask, Vector]] = []
        self._server = server
        self._server.settimeout(0)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)

    @property
    def workers(self) -> list[int]:
        """The ranks of connected workers, in order."""
        return sorted(link.rank for link in self._links.values() if link.rank)

    @property
    def idle(self) -> list[int]:
        """The ranks of connected workers without a task."""
        return sorted(link.rank for link in self._links.values() if link.rank and link.task is None)

    def give(self, rank: int, task: GradientTask, parameters: Array) -> None:
        """Give a task to an idle worker; it is sent while the server waits."""
        link = next(link for link in self._links.values() if link.rank == rank)
        content = np.ascontiguousarray(parameters, np.float32).tobytes() if task.step else b""
        header = _HEADER.pack(_MAGIC, *task, len(content) // 4)
        link.task, link.outgoing = task, memoryview(header + content)
        self._selector.modify(link.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, link)

    def wait(self, holds: Callable[[], object], patience_s: float) -> bool:
        """Serve all workers until something holds; return whether it does."""
        deadline = time.monotonic() + patience_s
        while not holds():
            self.while_waiting()
            if time.monotonic() >= deadline:
                return False
            self._serve()
        return True

    def results(self) -> list[tuple[int, GradientTask, Vector]]:
        """Take what has come in: ranks, tasks and sums."""
        taken, self._results = self._results, []
        return taken

    def finish(self) -> None:
        """Tell all workers that there are no more tasks, once they have sent what they work on, and let them leave."""
        nothing = np.zeros(0, np.float32)
        left = time.monotonic() + LEAVE_S

        def are_gone() -> bool:
            for rank in self.idle:
                self.give(rank, OVER, nothing)
            return not self._links

        self.while_waiting = lambda: None  # what follows is no part of the training
        self.wait(are_gone, left - time.monotonic())

    def close(self) -> None:
        """Close all connections."""
        self._selector.close()
        self._server.close()
        for link in self._links.values():
            link.socket.close()

    def _serve(self) -> None:
        overdue = time.monotonic() - star.GREETING_S
        ready = self._selector.select(_LOOK_S)
        for key, events in ready:
            link: _Link | None = key.data
            if link is None:
                self._admit()
                continue
            try:
                if events & selectors.EVENT_WRITE:
                    self._send(link)
                if events & selectors.EVENT_READ:
                    self._receive(link)
            except OSError as error:
                self._drop(link, str(error))
        # One whose greeting has come while this process did not run is not late.
        heard = {key.fd for key, _ in ready}
        for descriptor, link in [*self._links.items()]:
            if not link.rank and link.since < overdue and descriptor not in heard:
                self._drop(link, "it has not greeted")

    def _admit(self) -> None:
        with contextlib.suppress(OSError):  # it has gone already
            connection, _ = self._server.accept()
            star.keep_alive(connection)
            connection.settimeout(0)
            link = _Link(connection, time.monotonic())
            self._links[connection.fileno()] = link
            self._selector.register(connection, selectors.EVENT_READ, link)

    def _send(self, link: _Link) -> None:
        link.outgoing = link.outgoing[link.socket.send(link.outgoing) :]
        if not link.outgoing:
            self._selector.modify(link.socket, selectors.EVENT_READ, link)

    def _receive(self, link: _Link) -> None:
        content = link.socket.recv(_CHUNK_BYTES)
        if not content:
            raise PeerLost("it has closed its connection")
        link.incoming += content
        if not link.rank:
            self._greeted(link)
        size = _HEADER.size + 8 * self._values
        if link.rank and len(link.incoming) >= size:
            if link.task is None or bytes(link.incoming[: _HEADER.size]) != _HEADER.pack(
                _MAGIC, *link.task, self._values
            ):
                raise PeerLost("it sent what it was not asked for")
            self._results.append((link.rank, link.task, np.frombuffer(bytes(link.incoming[_HEADER.size : size]))))
            del link.incoming[:size]
            link.task = None

    def _greeted(self, link: _Link) -> None:
        if len(link.incoming) < star.GREETING.size:
            return
        rank = star.caller(bytes(link.incoming[: star.GREETING.size]), self._world_size)
        if rank is None or rank in self.workers:
            raise PeerLost("it is no peer")
        del link.incoming[: star.GREETING.size]
        link.rank = rank
        self.lost.pop(rank, None)

    def _drop(self, link: _Link, why: str) -> None:
        self._selector.unregister(link.socket)
        del self._links[link.socket.fileno()]
        link.socket.close()
        if link.rank and link.task is not OVER:
            self.lost[link.rank] = why


def tasks(
    rank: int, peers: Sequence[tuple[str, int]], parameters: Array, patience_s: float
) -> Iterator[tuple[GradientTask, Callable[[Vector], None]]]:
    """The worker's side: its tasks as they come, each with what sends its result; ``parameters`` gets those of the task.

    Raises:
        PeerLost: The server is gone, or does not answer in time.
    """
    with star.call(rank, peers, patience_s) as link:
        while True:
            try:
                magic, *words, values = _HEADER.unpack(star.read(link, _HEADER.size))
                task = GradientTask(*words)
                if (magic, values) != (_MAGIC, len(parameters) if task.step else 0):
                    raise PeerLost(f"the server sent {task} and {values} values, not {len(parameters)}")
                if not task.step:
                    return
                parameters[...] = np.frombuffer(star.read(link, 4 * values), np.float32)
            except OSError as error:
                raise PeerLost(f"the server: {error}") from error
            yield task, functools.partial(_answer, link, task)


def _answer(link: socket.socket, task: GradientTask, sums: Vector) -> None:
    try:
        link.sendall(_HEADER.pack(_MAGIC, *task, len(sums)) + sums.tobytes())
    except OSError as error:
        raise PeerLost(f"the server: {error}") from error

"""What a pod prints is copied within bounds, also if the API server sends other bytes or the copy is cut off."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from tests.harness.set_clock import SetClock
from tests.harness.waiting import until

from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder, SpecRecord
from steepest.cluster.kubernetes import output
from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.kubernetes.output import PodOutput, TimedLines, complete
from steepest.cluster.output_copy import MISSING, OutputCopy
from steepest.cluster.port import ReplicaId
from steepest.errors import UncertainError

from .conftest import SetPace

LOG = "/pods/p/log"
CHUNK_LINES = 100


def line(number: int) -> tuple[datetime, bytes]:
    """A line, ten milliseconds after the one before it, as the API server sends it."""
    at = datetime.fromtimestamp(number / 100, UTC)
    return at, b"%s000Z %d\n" % (at.strftime("%Y-%m-%dT%H:%M:%S.%f").encode(), number)


class Server:
    """An API server that shows the log of one container.

    Attributes:
        lines: The log, each line with its time in it.
        asked: The requests, each with its query.
        is_running: Whether the container runs: then a log that is followed has no end.
        fault: What each request ends with, after its lines.
        is_left: Set once a request is over.
    """

    def __init__(self, lines: Sequence[tuple[datetime, bytes]]) -> None:
        self.lines = lines
        self.asked: list[Mapping[str, str]] = []
        self.is_running = False
        self.fault: Exception | None = None
        self.is_left = asyncio.Event()

    @contextlib.asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], *, silent_s: float) -> AsyncIterator[Server]:
        """The log, from whole seconds on."""
        assert path == LOG
        assert silent_s > 0
        self.asked.append(query)
        try:
            yield self
        finally:
            self.is_left.set()

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Its chunks, which end anywhere."""
        since = self.asked[-1].get("sinceTime")
        sent = [text for at, text in self.lines if since is None or at >= datetime.fromisoformat(since)]
        for first in range(0, len(sent), CHUNK_LINES):
            chunk = b"".join(sent[first : first + CHUNK_LINES])
            yield chunk[:-5]
            yield chunk[-5:]
        if self.fault is not None:
            raise self.fault
        if self.is_running:
            await asyncio.Event().wait()


def printed(first: int, last: int) -> bytes:
    """Lines as the container printed them."""
    return b"".join(b"%d\n" % number for number in range(first, last))


@pytest.fixture
def folder(tmp_path: Path) -> IncarnationFolder:
    """The folder of an incarnation that prints."""
    found = AdapterFolder(tmp_path).incarnation(ReplicaId("mnist"), 1)
    found.make(SpecRecord(node="a", command=("x",)))
    return found


def follow(server: Server, folder: IncarnationFolder, patience_s: float = 0.0) -> PodOutput:
    """Begin to copy."""
    return PodOutput(cast("KubernetesApi", server), LOG.removesuffix("/log"), "main", folder, patience_s=patience_s)


async def test_a_log_is_copied_whole(folder: IncarnationFolder) -> None:
    """Without the times, and up to the end of the container."""
    copies = follow(Server([line(number) for number in range(1_000)]), folder)
    await copies.task

    assert copies.is_complete
    assert folder.output.read_bytes() == printed(0, 1_000)


async def test_what_has_the_name_of_a_pod_that_is_gone_is_not_copied(
    folder: IncarnationFolder, set_pace: SetPace
) -> None:
    """The pods of some users' objects have the same names each time: the rest of one is missing, and no other's is there."""
    set_pace(1_000, 0.1, 1)  # so that it is read in pieces
    server, gone = Server([line(number) for number in range(500)]), asyncio.Event()
    path = LOG.removesuffix("/log")
    copies = PodOutput(cast("KubernetesApi", server), path, "main", folder, is_gone=gone.is_set)
    await server.is_left.wait()
    gone.set()
    copies.hurry()
    await copies.task

    assert len(server.asked) == 1
    assert not copies.is_complete


async def test_a_pod_that_prints_too_fast_is_read_in_pieces(
    folder: IncarnationFolder, monkeypatch: pytest.MonkeyPatch, set_pace: SetPace
) -> None:
    """Each begins some time after the one before it, and nothing is lost that its node has."""
    set_pace(5_000, 10_000_000, 5_000)
    monkeypatch.setattr(output, "SystemClock", SetClock)  # time that does not pass allows no more than the burst
    server = Server([line(number) for number in range(2_000)])
    copies = follow(server, folder)
    await copies.task

    assert copies.is_complete
    assert len(server.asked) > 5
    assert folder.output.read_bytes() == printed(0, 2_000)


async def test_an_ended_pod_is_copied_without_a_pause(folder: IncarnationFolder, set_pace: SetPace) -> None:
    """Also one whose copying pauses, because it has printed too fast: its end is not reported before."""
    set_pace(5_000, 0.1, 1)  # a pause is half a day
    server = Server([line(number) for number in range(2_000)])
    copies = follow(server, folder)
    await until(lambda: folder.output.exists() and folder.output.stat().st_size > 0)
    await complete(copies, lambda patience_s: follow(server, folder, patience_s))

    assert folder.output.read_bytes() == printed(0, 2_000)


async def test_while_it_pauses_another_adapter_may_copy(folder: IncarnationFolder, set_pace: SetPace) -> None:
    """The files are open and locked only while something is copied."""
    set_pace(1_000, 0.1, 1)
    copies = follow(Server([line(number) for number in range(500)]), folder)

    def is_free() -> bool:
        copy = OutputCopy.locked(folder, 0.0)
        if copy is not None:
            copy.close()
        return copy is not None and folder.output.stat().st_size > 0

    await until(is_free)
    copies.task.cancel()
    await asyncio.gather(copies.task, return_exceptions=True)


async def test_an_answer_that_breaks_off_is_gone_on_with(folder: IncarnationFolder) -> None:
    """The next copy asks from the last second on, and keeps each line once."""
    lines = [line(number) for number in range(1_000)]
    server = Server(lines[:700])
    server.fault = UncertainError("no answer", code="no-api-server")
    copies = follow(server, folder)
    await copies.task
    assert not copies.is_complete
    server.lines, server.fault = lines, None
    await follow(server, folder).task

    assert server.asked[-1]["sinceTime"] == "1970-01-01T00:00:06Z"
    assert folder.output.read_bytes() == printed(0, 1_000)


async def test_what_a_node_has_rotated_away_is_said(folder: IncarnationFolder) -> None:
    """Its log begins behind what was copied."""
    lines = [line(number) for number in range(1_000)]
    await follow(Server(lines[:200]), folder).task
    await follow(Server(lines[600:]), folder).task

    assert folder.output.read_bytes() == printed(0, 200) + MISSING + printed(600, 1_000)


async def test_what_a_node_says_about_a_log_is_no_output(folder: IncarnationFolder) -> None:
    """It comes in the place of lines, without a time, and copying goes on behind it."""
    lines = [line(number) for number in range(200)]
    said = (lines[100][0], b"failed to watch file /var/log/pods/0.log: no space left on device\n")
    await follow(Server([*lines[:100], said]), folder).task
    await follow(Server([said, *lines]), folder).task

    assert folder.output.read_bytes() == printed(0, 200)


async def test_a_cancelled_copy_leaves_nothing_open(folder: IncarnationFolder) -> None:
    """Another one may begin after it."""
    server = Server([line(number) for number in range(10)])
    server.is_running = True
    copies = follow(server, folder)
    await until(lambda: folder.output.exists() and folder.output.read_bytes() == printed(0, 10))
    assert OutputCopy.locked(folder, 0.0) is None
    copies.task.cancel()
    await asyncio.gather(copies.task, return_exceptions=True)
    copy = OutputCopy.locked(folder, 0.0)

    assert copy is not None
    copy.close()


def test_a_line_that_never_has_a_time_is_not_collected() -> None:
    """Each piece of it is handed on as it comes, however long the line."""
    lines = TimedLines()
    found = [piece for _ in range(100) for piece in lines.of(b"x" * 1_000)]

    assert len(found) == 100
    assert list(lines.of(b"\n2026-11-23T12:00:00.000000000Z a\n"))[1:] == [("2026-11-23T12:00:00.000000000Z", b"a\n")]

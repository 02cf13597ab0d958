"""Following real files: growth, rotation, truncation, deletion, and going on after a crash."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path

import msgspec
import pytest

from steepest import inotify
from steepest.inotify import FileEvents
from steepest.training_logs.sources import tail
from steepest.training_logs.sources.tail import Chunk, TailCursor, follow

pytestmark = pytest.mark.parametrize("notify", [True, False], ids=["notices", "polling"])

POLL_S = 0.01


async def take(chunks: AsyncIterator[Chunk], size: int) -> tuple[bytes, list[bool], TailCursor]:
    """Awaits chunks until they hold so many bytes: the bytes, where files begin, the last place."""
    data, begins = b"", []
    while len(data) < size:
        chunk = await anext(chunks)
        data += chunk.data
        begins.append(chunk.begins)
    return data, begins, chunk.place


def append(path: Path, data: bytes) -> None:
    """Writes to a file's end."""
    with path.open("ab") as file:
        file.write(data)


async def test_growth_is_followed_from_before_the_file_is_there(tmp_path: Path, *, notify: bool) -> None:
    """A file that is created later and grows is read in full, and a deleted one is followed again when it is recreated."""
    path = tmp_path / "job.log"
    async with aclosing(follow(path, below=path.parent, poll_s=POLL_S, notify=notify)) as chunks:
        waiting = asyncio.ensure_future(take(chunks, 4))
        await asyncio.sleep(0)
        append(path, b"one\n")
        assert (await waiting)[:2] == (b"one\n", [False])
        append(path, b"two\n")
        assert (await take(chunks, 4))[:2] == (b"two\n", [False])
        path.unlink()
        append(path, b"three\n")

        assert (await take(chunks, 6))[:2] == (b"three\n", [True])


async def test_one_process_takes_a_bounded_part_of_the_users_instances(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, notify: bool
) -> None:
    """Files beyond that are followed too, by polling; each instance is given back."""
    before = FileEvents.instances
    monkeypatch.setattr(tail, "INSTANCES_MOST", before + 2)
    async with AsyncExitStack() as following:
        for number in range(4):
            path = tmp_path / f"{number}.log"
            append(path, b"one\n")
            chunks = await following.enter_async_context(
                aclosing(follow(path, below=path.parent, poll_s=POLL_S, notify=notify))
            )
            await take(chunks, 4)
            append(path, b"two\n")
            assert (await take(chunks, 4))[0] == b"two\n"
        assert FileEvents.instances == before + (2 if notify and inotify.AVAILABLE else 0)
    assert FileEvents.instances == before


async def test_rotation_reads_the_old_file_to_its_end_first(tmp_path: Path, *, notify: bool) -> None:
    """What was written before a rotation comes before what the new file holds."""
    path = tmp_path / "job.log"
    append(path, b"one\n")
    async with aclosing(follow(path, below=path.parent, poll_s=POLL_S, notify=notify)) as chunks:
        await take(chunks, 4)
        append(path, b"two\n")
        path.rename(tmp_path / "job.log.1")
        append(path, b"three\n")

        data, begins, _ = await take(chunks, 10)

    assert data == b"two\nthree\n"
    assert begins == [False, True]


@pytest.mark.parametrize("new", [b"x\n", b"a line that is longer than what was there before\n"])
async def test_truncation_begins_anew(tmp_path: Path, new: bytes, *, notify: bool) -> None:
    """A truncated file is read from its start, also when it has outgrown its old length meanwhile."""
    path = tmp_path / "job.log"
    append(path, b"one\ntwo\n")
    async with aclosing(follow(path, below=path.parent, poll_s=POLL_S, notify=notify)) as chunks:
        await take(chunks, 8)
        path.write_bytes(new)

        data, begins, place = await take(chunks, len(new))

    assert (data, begins[0], place.offset) == (new, True, len(new))


async def test_stop_reads_to_the_end(tmp_path: Path, *, notify: bool) -> None:
    """Once stopped, all that is there is yielded and the iteration ends."""
    path = tmp_path / "job.log"
    append(path, os.urandom(600_000))
    stop = asyncio.Event()
    stop.set()

    data = b"".join(
        [chunk.data async for chunk in follow(path, below=path.parent, stop=stop, poll_s=POLL_S, notify=notify)]
    )

    assert data == path.read_bytes()


async def test_going_on_after_a_crash(tmp_path: Path, *, notify: bool) -> None:
    """From a saved place nothing is lost or doubled, though the file was rotated twice since."""
    path = tmp_path / "job.log"
    append(path, b"one\ntwo\n")
    async with aclosing(follow(path, below=path.parent, poll_s=POLL_S, notify=notify)) as chunks:
        _, _, place = await take(chunks, 8)
    place = msgspec.json.decode(msgspec.json.encode(place), type=TailCursor)
    append(path, b"three\n")
    path.rename(tmp_path / "job.log.2")
    os.utime(tmp_path / "job.log.2", ns=(1, 1))
    append(tmp_path / "job.log.1", b"four\n")
    append(path, b"five\n")
    stop = asyncio.Event()
    stop.set()

    rest = [
        (chunk.data, chunk.begins)
        async for chunk in follow(path, below=path.parent, place=place, stop=stop, poll_s=POLL_S, notify=notify)
    ]

    assert rest == [(b"three\n", False), (b"four\n", True), (b"five\n", True)]

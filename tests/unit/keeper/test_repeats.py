"""The stream of an image has repeated memory once, and its files are restored byte for byte."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.keeper import repeats

PAGES = st.lists(st.sampled_from([b"aaaa", b"bbbb", b"\0\0\0\0", b"abab"]), max_size=40).map(b"".join)
FILES = st.lists(st.tuples(PAGES, st.binary(max_size=3)).map(b"".join), min_size=1, max_size=4)


def there_and_back(contents: Sequence[bytes]) -> tuple[dict[str, list[repeats.Extent]], int]:
    """Send files with these contents, and compare what is received; the extents, and the length of the stream."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{number}.img") for number in range(len(contents))]
        for path, content in zip(files, contents, strict=True):
            path.write_bytes(content)
        out, into = os.pipe()
        stream = Path(folder, "stream")
        with os.fdopen(out, "rb") as pipe:
            copying = threading.Thread(target=lambda: stream.write_bytes(pipe.read()))
            copying.start()
            with os.fdopen(into, "wb"):
                extents = repeats.send(files, into)
            copying.join()
        length = stream.stat().st_size
        received = Path(folder, "received")
        received.mkdir()
        out, into = os.pipe()
        with os.fdopen(out, "rb") as pipe, os.fdopen(into, "wb", buffering=0) as end:
            copying = threading.Thread(target=lambda: end.write(stream.read_bytes()))
            copying.start()
            repeats.receive(extents, pipe.fileno(), received)
            copying.join()
        assert [(received / path.name).read_bytes() for path in files] == list(contents)
    return extents, length


@given(contents=FILES, hashes=st.sampled_from([hash, len, lambda page: page[:1]]))
def test_files_come_out_of_a_stream_as_they_were(contents: list[bytes], hashes: object) -> None:
    """Of any pages in any order, also if all pages have one hash, and if no more pages or files are remembered."""
    for most_pages, most_files in ((100, 100), (2, 100), (100, 1)):
        with pytest.MonkeyPatch.context() as patch:
            small = {"_PAGE": 4, "_RUN": 16, "_MOST_NEW": 32, "_MOST_PAGES": most_pages, "_MOST_FILES": most_files}
            for name, value in {**small, "hash": hashes}.items():
                patch.setattr(repeats, name, value, raising=False)
            there_and_back(contents)


def test_memory_of_forked_processes_is_in_the_stream_once() -> None:
    """Three processes of 1 MiB that differ in one page each: the stream has the first, and these pages."""
    page = repeats._PAGE
    first = os.urandom(1 << 20)
    contents = [first, *(first[: at * page] + os.urandom(page) + first[(at + 1) * page :] for at in (0, 99))]
    extents, length = there_and_back(contents)
    assert length == (1 << 20) + 2 * page
    assert extents["2.img"] == [(99 * page, "0.img", 0), (page, "", 0), ((256 - 100) * page, "0.img", 100 * page)]

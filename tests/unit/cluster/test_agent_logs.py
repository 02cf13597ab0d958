"""A container's log is read from its node's files: every line once, in order, while a kubelet rotates and removes files."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.harness.set_clock import SetClock
from tests.harness.waiting import until

from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder, SpecRecord
from steepest.cluster.kubernetes import output
from steepest.cluster.kubernetes.agent import log_files, node_output
from steepest.cluster.kubernetes.agent.cri_lines import HEAD_BYTES_MOST, CriLines
from steepest.cluster.kubernetes.agent.log_files import LogFiles, ReadAgainError
from steepest.cluster.kubernetes.agent.node_output import ContainerLog, NodeOutput
from steepest.cluster.kubernetes.output import TimedLines, complete
from steepest.cluster.output_copy import MISSING, OutputCopy
from steepest.cluster.port import ReplicaId
from steepest.untrusted.files import open_file

from .conftest import SetPace

Piece = tuple[str, str, bytes]
"""A stream, a tag, and the text of one line of the file."""


def stamp(number: int) -> str:
    """A time, ten milliseconds after the one before it, as a runtime writes it: without zeros at its end."""
    at = datetime.fromtimestamp(number / 100, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S.%f}".rstrip("0").rstrip(".") + "Z"


def cri(number: int, text: bytes, stream: str = "stdout", tag: str = "F") -> bytes:
    """A line of the file."""
    return b"%s %s %s %s\n" % (stamp(number).encode(), stream.encode(), tag.encode(), text)


def lines(first: int, last: int) -> bytes:
    """Lines of the file, each with its number."""
    return b"".join(cri(number, b"%d" % number) for number in range(first, last))


def printed(first: int, last: int) -> bytes:
    """The same as the container printed them."""
    return b"".join(b"%d\n" % number for number in range(first, last))


def kubelets(pieces: Sequence[Piece]) -> bytes:
    """What a kubelet shows of these pieces with times: one before each line's first piece, and none before the others."""
    shown, is_new = b"", True
    for number, (_, tag, text) in enumerate(pieces):
        time = stamp(number).removesuffix("Z")
        second, _, fraction = time.partition(".")
        shown += f"{second}.{fraction:0<9}Z ".encode() if is_new else b""
        shown += text + (b"\n" if tag == "F" else b"")
        is_new = tag == "F" if tag == "F" or text else is_new
    return shown


PIECES = st.lists(
    st.tuples(
        st.sampled_from(["stdout", "stderr"]),
        st.sampled_from(["F", "F", "P"]),
        st.binary(max_size=40).map(lambda text: text.replace(b"\n", b"") or b"x"),
    ),
    max_size=30,
)


@given(pieces=PIECES, cuts=st.lists(st.integers(0, 3_000), max_size=8))
@example(pieces=[("stdout", "F", b"2026-01-31T12:00:00Z stderr P a job may print this")], cuts=[])
def test_what_is_read_is_what_the_api_server_shows(pieces: list[Piece], cuts: list[int]) -> None:
    """The same lines with the same times, for any content, and for any division of the file into chunks."""
    file = b"".join(cri(number, text, stream, tag) for number, (stream, tag, text) in enumerate(pieces))
    found, reader = list[tuple[str, bytes]](), CriLines()
    for chunk in chunks(file, cuts):
        found += reader.of(chunk)
    shown = list(TimedLines().of(kubelets(pieces)))

    assert joined(found) == joined(shown)
    assert reader.malformed == 0


@given(junk=st.binary(max_size=400), cuts=st.lists(st.integers(0, 500), max_size=4))
def test_a_file_of_anything_is_read(junk: bytes, cuts: list[int]) -> None:
    """Without an error, with bounded memory, and the next line that is one is found again."""
    reader, found = CriLines(), list[tuple[str, bytes]]()
    for chunk in chunks(junk + b"\n" + cri(1, b"behind it"), cuts):
        found += reader.of(chunk)

    assert b"".join(text for _, text in found).endswith(b"behind it\n")
    assert len(reader._head) < HEAD_BYTES_MOST


def test_a_long_line_is_handed_on_as_it_comes() -> None:
    """A runtime without a bound writes lines of any length."""
    reader = CriLines()
    first = list(reader.of(b"2026-01-31T12:00:00.5+02:00 stdout F " + b"x" * 1_000))
    rest = list(reader.of(b"y" * 1_000))

    assert first == [("2026-01-31T12:00:00.500000000+02:00", b"x" * 1_000)]
    assert rest == [("2026-01-31T12:00:00.500000000+02:00", b"y" * 1_000)]


def chunks(file: bytes, cuts: list[int]) -> Iterator[bytes]:
    """The file, cut at these places."""
    places = [0, *sorted(cut % (len(file) + 1) for cut in cuts), len(file)]
    return (file[begin:end] for begin, end in itertools.pairwise(places))


def joined(pieces: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Pieces of one line put together."""
    found: list[tuple[str, bytes]] = []
    for at, text in pieces:
        if found and found[-1][0] == at and not found[-1][1].endswith(b"\n"):
            found[-1] = (at, found[-1][1] + text)
        else:
            found.append((at, text))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> IncarnationFolder:
    """The folder of an incarnation that prints."""
    found = AdapterFolder(tmp_path / "state").incarnation(ReplicaId("mnist"), 1)
    found.make(SpecRecord(node="a", command=("x",)))
    return found


class Node:
    """A kubelet that keeps a container's log.

    Attributes:
        log: Where it is.
    """

    def __init__(self, below: Path) -> None:
        self.log = ContainerLog(below, below / "n_pod_uid" / "job", "0.log")
        self.log.folder.mkdir(parents=True)
        self.has_ended = False
        self._rotations = 0

    @property
    def file(self) -> Path:
        """The file that is written."""
        return self.log.folder / self.log.name

    def write(self, first: int, last: int) -> None:
        """The container prints."""
        with self.file.open("ab") as file:
            file.write(lines(first, last))
        os.utime(self.file, (last / 100, last / 100))

    def rotate(self) -> Path:
        """The file is renamed; the container goes on into a new one with its next line."""
        self._rotations += 1
        rotated = self.file.with_name(f"0.log.20260131-1200{self._rotations:02}")
        self.file.rename(rotated)
        return rotated

    def compress(self, rotated: Path) -> None:
        """A file is compressed, as with the rotation after its own."""
        packed = rotated.with_name(f"{rotated.name}.gz")
        packed.write_bytes(gzip.compress(rotated.read_bytes()))
        rotated.unlink()

    def copy(self, folder: IncarnationFolder) -> NodeOutput:
        """An agent that copies."""
        return NodeOutput(self.log, lambda: self.has_ended, folder)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A node whose log is looked at often."""
    monkeypatch.setattr(node_output, "LOOK_S", 0.01)
    return Node(tmp_path / "logs")


async def ended(copies: NodeOutput) -> None:
    """Stop an agent's copy."""
    copies.task.cancel()
    await asyncio.gather(copies.task, return_exceptions=True)


def kept(folder: IncarnationFolder) -> Callable[[bytes], bool]:
    """Tells whether the output is exactly some text."""
    return lambda wanted: folder.output.exists() and folder.output.read_bytes() == wanted


async def test_a_log_is_copied_whole_across_rotations(folder: IncarnationFolder, node: Node) -> None:
    """While it is followed; its end is known once the container has ended."""
    node.write(0, 100)
    copies = node.copy(folder)
    await until(lambda: kept(folder)(printed(0, 100)))
    node.rotate()
    node.write(100, 200)
    await until(lambda: kept(folder)(printed(0, 200)))
    node.compress(node.rotate())
    node.write(200, 300)
    node.has_ended = True
    await copies.task

    assert copies.is_complete
    assert folder.output.read_bytes() == printed(0, 300)


async def test_what_was_rotated_while_the_agent_was_away_is_read(folder: IncarnationFolder, node: Node) -> None:
    """From the older files, compressed or not, and each line once."""
    node.write(0, 100)
    copies = node.copy(folder)
    await until(lambda: kept(folder)(printed(0, 100)))
    await ended(copies)
    node.write(100, 150)
    node.compress(node.rotate())
    node.write(150, 200)
    node.rotate()
    node.write(200, 300)
    node.has_ended = True
    copies = node.copy(folder)
    await copies.task

    assert folder.output.read_bytes() == printed(0, 300)


async def test_an_agent_goes_on_where_the_api_servers_log_was_copied_to(folder: IncarnationFolder, node: Node) -> None:
    """And the other way round: both know a place by the same time of a line."""
    pieces = [("stdout", "F", b"%d" % number) for number in range(300)]
    shown = list(TimedLines().of(kubelets(pieces)))
    copy = OutputCopy.locked(folder, 0.0)
    assert copy is not None
    copy.begin()
    for at, text in shown[:100]:
        copy.add(at, text)
    copy.close()
    node.write(0, 200)
    node.has_ended = True
    await node.copy(folder).task
    assert folder.output.read_bytes() == printed(0, 200)
    copy = OutputCopy.locked(folder, 0.0)
    assert copy is not None
    copy.begin()
    for at, text in shown:
        copy.add(at, text)
    copy.close()

    assert folder.output.read_bytes() == printed(0, 300)


async def test_what_a_node_has_removed_is_said(folder: IncarnationFolder, node: Node) -> None:
    """Where the oldest file does not reach back to what was copied."""
    node.write(0, 100)
    copies = node.copy(folder)
    await until(lambda: kept(folder)(printed(0, 100)))
    await ended(copies)
    node.write(100, 200)
    node.rotate().unlink()
    node.write(200, 300)
    node.has_ended = True
    await node.copy(folder).task

    assert folder.output.read_bytes() == printed(0, 100) + MISSING + printed(200, 300)


async def test_a_file_that_was_cut_is_read_from_its_beginning(
    folder: IncarnationFolder, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was in it is lost, and that is said."""
    monkeypatch.setattr(output, "SystemClock", SetClock)
    node.write(0, 100)
    copies = node.copy(folder)
    await until(lambda: kept(folder)(printed(0, 100)))
    os.truncate(node.file, 0)
    node.write(200, 210)
    node.has_ended = True
    await complete(copies, lambda _: node.copy(folder))

    assert folder.output.read_bytes() == printed(0, 100) + MISSING + printed(200, 210)


async def test_a_pod_that_is_removed_is_read_to_its_end(folder: IncarnationFolder, node: Node) -> None:
    """What is open is still there when its folder is gone."""
    node.write(0, 100)
    copies = node.copy(folder)
    await until(lambda: kept(folder)(printed(0, 100)))
    node.write(100, 200)
    node.file.unlink()
    node.log.folder.rmdir()
    node.has_ended = True
    await copies.task

    assert copies.is_complete
    assert folder.output.read_bytes() == printed(0, 200)


async def test_a_flood_is_copied_in_pieces(
    folder: IncarnationFolder, node: Node, monkeypatch: pytest.MonkeyPatch, set_pace: SetPace
) -> None:
    """With pauses; once its container has ended, without."""
    set_pace(500, 0.1, 1)  # a pause is hours long
    monkeypatch.setattr(output, "SystemClock", SetClock)
    monkeypatch.setattr(log_files, "CHUNK_BYTES", 1_000)
    node.write(0, 2_000)
    copies = node.copy(folder)
    await until(lambda: folder.output.exists() and folder.output.stat().st_size > 0)
    assert folder.output.stat().st_size < len(printed(0, 2_000))
    node.has_ended = True
    await complete(copies, lambda _: node.copy(folder))

    assert folder.output.read_bytes() == printed(0, 2_000)


class Copier:
    """An agent's copy, a step at a time."""

    def __init__(self, node: Node, folder: IncarnationFolder) -> None:
        self._node = node
        copy = OutputCopy.locked(folder, 0.0)
        assert copy is not None
        self._copy = copy
        self._begin()

    def _begin(self) -> None:
        log = self._node.log
        self._lines = CriLines()
        self._files = LogFiles(log.folder, log.name, below=log.below, since=self._copy.begin())

    def read(self) -> bool:
        """Read what comes next; whether there was something."""
        try:
            data = self._files.read()
        except ReadAgainError:
            self._files.close()
            self._begin()
            return True
        for at, text in self._lines.of(data):
            self._copy.add(at, text)
        return bool(data)

    def close(self) -> None:
        """Die."""
        self._files.close()
        self._copy.close()


ACTS = st.lists(st.sampled_from(["write", "write", "rotate", "compress", "read", "die"]), max_size=30)


@given(acts=ACTS)
@example(acts=["write", "rotate"])
@example(
    acts=["write", "die", "rotate", "write", "rotate", "compress"]
)  # the newest file may have the oldest one's inode
def test_whatever_a_kubelet_and_an_agent_do_every_line_is_kept_once(acts: list[str]) -> None:
    """As long as no file is removed: written, rotated, compressed and read in any order, by agents that die."""
    with tempfile.TemporaryDirectory() as place:
        folder = AdapterFolder(Path(place) / "state").incarnation(ReplicaId("mnist"), 1)
        folder.make(SpecRecord(node="a", command=("x",)))
        node, count, rotated = Node(Path(place) / "logs"), 0, list[Path]()
        copier = Copier(node, folder)
        for act in [*acts, "write"]:
            if act == "write":
                node.write(count, count + 3)
                count += 3
            elif act == "rotate" and node.file.exists():
                rotated.append(node.rotate())
            elif act == "compress" and len(rotated) > 1:
                node.compress(rotated.pop(0))
            elif act == "read":
                copier.read()
            elif act == "die":
                copier.close()
                copier = Copier(node, folder)
        idle = 0
        while idle < 3:
            idle = 0 if copier.read() else idle + 1
        copier.close()

        assert folder.output.read_bytes() == printed(0, count)


def test_no_link_is_followed(tmp_path: Path) -> None:
    """Neither a file nor a folder that leads elsewhere is read: what is there may be anyone's."""
    node = Node(tmp_path / "logs")
    (tmp_path / "secret").write_bytes(lines(0, 10))
    node.file.symlink_to(tmp_path / "secret")
    (node.log.below / "n_other_uid").mkdir()
    (node.log.below / "n_other_uid" / "job").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "0.log").write_bytes(lines(0, 10))
    for place in (node.log.folder, node.log.below / "n_other_uid" / "job"):
        files = LogFiles(place, "0.log", below=node.log.below, since=None)

        assert files.read() == b""
        files.close()


def test_a_rotation_between_the_list_and_the_opening_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the file that was written until then would be left out; what is open already is closed."""
    node = Node(tmp_path / "logs")
    node.write(0, 10)
    node.rotate()
    node.write(10, 20)

    def opened(path: Path, *, below: Path) -> int:
        if path == node.file:
            node.rotate()
            node.write(20, 30)
        return open_file(path, below=below)

    monkeypatch.setattr(log_files, "open_file", opened)
    files = LogFiles(node.log.folder, "0.log", below=node.log.below, since=None)
    with pytest.raises(ReadAgainError):
        files.read()
    files.close()


def test_older_files_than_needed_are_not_opened(tmp_path: Path) -> None:
    """A file whose last line is older than the copy's place has nothing new."""
    node = Node(tmp_path / "logs")
    node.write(0, 100)
    node.rotate()
    node.write(100, 200)
    files = LogFiles(node.log.folder, "0.log", below=node.log.below, since=1.5)
    found = files.read()
    files.close()

    assert found == lines(100, 200)

"""What a job printed, read from its folder: the last lines, what is added, and nothing that a job could do with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder
from steepest.cluster.folders.printed import CHUNK_BYTES, LINE_LETTERS, READ_MOST, Printed, in_words, last_lines
from steepest.cluster.port import ReplicaId
from steepest.errors import UntrustedError


@pytest.fixture
def state(tmp_path: Path) -> AdapterFolder:
    """The folder of an adapter."""
    folder = AdapterFolder(tmp_path / "cluster")
    folder.make()
    return folder


def printing(state: AdapterFolder, text: str = "", *, job: str = "a", incarnation: int = 1) -> IncarnationFolder:
    """An incarnation that has printed something."""
    folder = state.incarnation(ReplicaId(job), incarnation)
    folder.path.mkdir(parents=True)
    folder.output.write_text(text)
    return folder


@pytest.mark.parametrize(
    ("text", "lines", "shown", "more"),
    [
        ("", 5, [], False),
        ("1\n2\n3\n", 2, ["2", "3"], True),
        ("1\n2\n3\n", 3, ["1", "2", "3"], False),
        ("1\n2\n3", 2, ["2", "3"], True),
        ("1\n2\n", 0, [], True),
        ("a\rb\rlast\nnext\r\n", 5, ["last", "next"], False),
    ],
)
def test_the_last_lines_are_shown(state: AdapterFolder, text: str, lines: int, shown: list[str], more: object) -> None:
    """As many as asked for, also one without an end, with what a carriage return left; and whether there are earlier."""
    assert last_lines(printing(state, text), lines) == (shown, more)


def test_the_rotated_file_has_the_lines_before(state: AdapterFolder) -> None:
    """An output that has just been rotated is shown from the older file's last lines on."""
    folder = printing(state, "3\n4\n")
    folder.output.with_name("output.log.1").write_text("1\n2\n")

    assert last_lines(folder, 3) == (["2", "3", "4"], True)
    assert last_lines(folder, 4) == (["1", "2", "3", "4"], False)


def test_lines_are_found_across_reads(state: AdapterFolder) -> None:
    """Lines that lie in several reads are whole; a line longer than the most that is shown is cut."""
    folder = printing(state, f"first\n{'x' * CHUNK_BYTES}\nlast\n")

    assert last_lines(folder, 3)[0] == ["first", f"{'x' * LINE_LETTERS}…", "last"]


def test_no_more_is_read_than_the_bound(state: AdapterFolder) -> None:
    """A file without line ends of any size costs a bounded read."""
    folder = printing(state)
    with folder.output.open("wb") as file:
        file.truncate(10 * READ_MOST)

    lines, more = last_lines(folder, 10)

    assert len(lines) == 1
    assert len(lines[0]) <= LINE_LETTERS + 1
    assert more


def test_added_lines_are_given_once(state: AdapterFolder) -> None:
    """Only what comes later, whole lines, through a rotation and through the move to the jobs that are over."""
    folder = printing(state, "old\nhalf")
    with Printed(folder) as printed, folder.output.open("a") as file:
        assert printed.last(1) == (["old"], False)
        assert list(printed.added()) == []
        file.write(" a line\nnext")
        file.flush()
        assert list(printed.added()) == ["half a line"]
        folder.output.rename(folder.output.with_name("output.log.1"))
        file.write(" line\n")
        file.flush()
        folder.output.write_text("after\n")
        assert list(printed.added()) == ["next line", "after"]
        with folder.output.open("a") as last:
            last.write("the end")
        state.retire("a")
        assert list(printed.added()) == []
        assert list(printed.rest()) == ["the end"]


def test_output_that_is_not_there_yet_is_waited_for(state: AdapterFolder) -> None:
    """A file that comes later is read from its first line on."""
    folder = printing(state)
    folder.output.unlink()
    with Printed(folder) as printed:
        assert printed.last(5) == ([], False)
        assert list(printed.added()) == []
        folder.output.write_text("here\n")
        assert list(printed.added()) == ["here"]


def test_a_link_is_refused(state: AdapterFolder, tmp_path: Path) -> None:
    """A job that puts a link in its output's place shows no other file by it."""
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    folder = printing(state)
    folder.output.unlink()
    folder.output.symlink_to(secret)

    with pytest.raises(UntrustedError):
        last_lines(folder, 5)


def test_incarnations_of_a_job_that_is_over_are_found(state: AdapterFolder) -> None:
    """A retired job's output is found under its name, and a job with a longer name is another one."""
    printing(state, incarnation=1)
    printing(state, incarnation=2)
    printing(state, job="a.1")
    for job in ("a", "a.1"):
        state.retire(job)

    assert [each.incarnation for each in state.printed(ReplicaId("a"))] == [1, 2]
    assert [str(each.path.relative_to(state.ended)) for each in state.printed(ReplicaId("a.1"))] == ["a.1.1/0/1"]


def test_what_is_no_utf8_is_shown() -> None:
    """Bytes that are no text are replaced."""
    assert in_words(b"\xff loss") == "� loss"

"""What is opened below a folder that is not trusted: regular files alone, by no link, and never waiting."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from steepest.errors import UntrustedError
from steepest.untrusted import files

Put = Callable[[Path], object]


def put_socket(path: Path) -> None:
    """A socket of the file system, whose name may be no longer than the kernel takes."""
    here = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


def put_device(path: Path) -> None:
    """A device of its own, as a container's root makes one."""
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("no device can be made here")


STRANGE: dict[str, Put] = {
    "a pipe": os.mkfifo,
    "a socket": put_socket,
    "a device": put_device,
    "a folder": Path.mkdir,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to a file": lambda path: path.symlink_to("/etc/passwd"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to its folder": lambda path: path.symlink_to(path.parent),
}


@pytest.mark.parametrize("put", STRANGE.values(), ids=STRANGE)
def test_what_is_no_regular_file_is_not_opened(tmp_path: Path, put: Put) -> None:
    """Anything else raises one error immediately."""
    path = tmp_path / "inner" / "file"
    path.parent.mkdir()
    put(path)

    with pytest.raises(UntrustedError) as caught:
        files.open_file(path, below=tmp_path)
    assert str(path) in str(caught.value)


def test_no_folder_on_the_way_may_be_a_link(tmp_path: Path) -> None:
    """A link in the middle leads elsewhere as well as one at the end; the trusted folder itself may be reached by one."""
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "real" / "inner" / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("real")

    with pytest.raises(UntrustedError):
        files.read(tmp_path / "link" / "inner" / "file", below=tmp_path, most=10)
    assert files.read(tmp_path / "link" / "inner" / "file", below=tmp_path / "link", most=10) == b"x"


@pytest.mark.parametrize("name", ["../outside", "inner/../../outside", ""])
def test_no_name_leads_out(tmp_path: Path, name: str) -> None:
    """Neither a name that climbs nor the folder itself is a file below it."""
    (tmp_path / "below").mkdir()
    (tmp_path / "outside").write_bytes(b"x")

    with pytest.raises(UntrustedError):
        files.open_file(tmp_path / "below" / name, below=tmp_path / "below")


def test_what_is_not_there_is_absent(tmp_path: Path) -> None:
    """Absence is no fault of anybody: it has an error of its own."""
    with pytest.raises(FileNotFoundError):
        files.read(tmp_path / "none" / "file", below=tmp_path, most=10)


def test_a_file_is_read_to_its_bound(tmp_path: Path) -> None:
    """A file of just as many bytes is whole; of a larger one, sparse or not, no more than that is read."""
    path = tmp_path / "file"
    path.write_bytes(bytes(200_000))
    assert len(files.read(path, below=tmp_path, most=200_000)) == 200_000
    os.truncate(path, 1 << 40)

    with pytest.raises(UntrustedError, match="larger than"):
        files.read(path, below=tmp_path, most=200_000)


def test_a_folder_is_listed_to_its_bounds(tmp_path: Path) -> None:
    """Entries and depth are bounded; a link is given and not followed."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").touch()
    (tmp_path / "up").symlink_to("a")

    found = {entry.name: entry.is_file for entry in files.walk(tmp_path, below=tmp_path, most=4, deepest=3)}

    assert found == {"a": False, "up": False, "a/b": False, "a/b/file": True}
    assert len(list(files.walk(tmp_path, below=tmp_path, most=2, deepest=1))) == 2
    with pytest.raises(UntrustedError, match="more than 3"):
        list(files.walk(tmp_path, below=tmp_path, most=3, deepest=3))
    with pytest.raises(UntrustedError, match="deeper than 2"):
        list(files.walk(tmp_path, below=tmp_path, most=4, deepest=2))


def test_listing_a_deep_folder_takes_no_more_descriptors_than_a_flat_one(tmp_path: Path) -> None:
    """A folder in a folder in a folder: the walk ends at its bound, and leaves nothing open."""
    deep = tmp_path.joinpath(*["d"] * 60)
    deep.mkdir(parents=True)
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208 - the names are all that is wanted

    with pytest.raises(UntrustedError, match="deeper"):
        list(files.walk(tmp_path, below=tmp_path, most=100, deepest=50))
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208 - as above


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """Neither a folder that is a link, nor a file that is one, leads a write elsewhere."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(b"theirs")
    (tmp_path / "folder").symlink_to("elsewhere")
    (tmp_path / "link").symlink_to("elsewhere/file")

    with pytest.raises(OSError, match="folder"):
        files.replace(tmp_path / "folder" / "file", b"ours", below=tmp_path)
    with pytest.raises(OSError, match="folder"):
        files.remove(tmp_path / "folder" / "file", below=tmp_path)
    files.replace(tmp_path / "link", b"ours", below=tmp_path)

    assert (tmp_path / "elsewhere" / "file").read_bytes() == b"theirs"
    assert files.read(tmp_path / "link", below=tmp_path, most=10) == b"ours"


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    """A folder in the file's place stays, and nothing lies beside it."""
    (tmp_path / "file").mkdir()

    with pytest.raises(OSError, match="irectory"):
        files.replace(tmp_path / "file", b"x", below=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

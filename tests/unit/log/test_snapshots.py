"""Snapshots: whole or absent, the newest or the one before."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.harness.examples import scaled
from tests.harness.memory_log import MemorySnapshots

from steepest.errors import InputError, LogUnavailableError
from steepest.log.snapshot_store import FolderSnapshots, SnapshotStore

KEY = "categorizer/loss/3/1"


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SnapshotStore:
    """An empty store of each kind."""
    return MemorySnapshots() if request.param == "memory" else FolderSnapshots(tmp_path / "snapshots")


def newest(folder: Path) -> Path:
    """The file of the only key's newest snapshot."""
    [path] = folder.glob("*.snapshot")
    return path


@settings(deadline=None, max_examples=scaled(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary() | st.binary(min_size=1000, max_size=1000))
async def test_a_snapshot_comes_back_as_it_was(store: SnapshotStore, data: bytes) -> None:
    """The bytes that were saved last under a key are loaded."""
    await store.save(KEY, b"older")
    await store.save(KEY, data)
    assert (await store.load(KEY))[0] == data


async def test_keys_are_apart_and_listed(store: SnapshotStore) -> None:
    """Each key has its own snapshot, with any characters in it; unknown ones have none."""
    keys = ["..", "a", "a/b", "a%2Fb", "a.previous", "é ☃"]
    assert list(await store.keys()) == []
    for number, key in enumerate(keys):
        await store.save(key, bytes([number]))
    assert list(await store.keys()) == sorted(keys)
    assert [(await store.load(key))[0] for key in keys] == [bytes([number]) for number in range(len(keys))]
    assert await store.load("b") == []


@pytest.mark.parametrize("key", ["", "x" * 201, "\ud800"])
async def test_a_key_that_makes_no_file_name_is_refused(store: SnapshotStore, key: str) -> None:
    """Keys that one store could not hold are refused by all."""
    with pytest.raises(InputError, match="snapshot key"):
        await store.save(key, b"")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[:-1] + b"\0",
        lambda data: data.replace(b"loss", b"lost"),
        lambda _: b"[" * 100_000,
        lambda _: b"",
    ],
    ids=["torn", "longer", "changed", "of another key", "nested", "empty"],
)
async def test_a_damaged_snapshot_gives_way_to_the_one_before(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    """A damaged snapshot is logged and left alone, and the sound one before it is loaded."""
    store = FolderSnapshots(tmp_path)
    await store.save(KEY, b"first")
    await store.save(KEY, b"second")
    newest(tmp_path).write_bytes(spoil(newest(tmp_path).read_bytes()))
    with capture_logs() as warnings:
        assert (await FolderSnapshots(tmp_path).load(KEY))[0] == b"first"
    assert [entry["file"] for entry in warnings] == [str(newest(tmp_path))]


async def test_a_damaged_snapshot_does_not_push_out_the_sound_one(tmp_path: Path) -> None:
    """Saving over a damaged snapshot keeps the sound one before it as the one before."""
    store = FolderSnapshots(tmp_path)
    await store.save(KEY, b"first")
    await store.save(KEY, b"second")
    for data in (b"third", b"fourth"):
        newest(tmp_path).write_bytes(b"rubbish")
        await store.save(KEY, data)
    newest(tmp_path).write_bytes(b"rubbish")
    assert (await store.load(KEY))[0] == b"first"


async def test_all_damaged_is_absent(tmp_path: Path) -> None:
    """Where no sound snapshot is left there is none, and nothing raises."""
    store = FolderSnapshots(tmp_path)
    await store.save(KEY, b"only")
    newest(tmp_path).write_bytes(b"rubbish")
    assert await store.load(KEY) == []


async def test_a_save_that_fails_leaves_the_last_one(tmp_path: Path) -> None:
    """Where a snapshot cannot be written, the error names the file, and the last one is still the newest."""
    store = FolderSnapshots(tmp_path)
    await store.save(KEY, b"first")
    temporary = tmp_path / f".{newest(tmp_path).name}.aside"
    temporary.symlink_to(tmp_path / "nowhere" / "nothing")
    with pytest.raises(LogUnavailableError, match=r"\.snapshot: cannot store the snapshot: .*errno"):
        await store.save(KEY, b"second")
    assert (await store.load(KEY))[0] == b"first"
    await store.save(KEY, b"third")
    assert (await store.load(KEY))[0] == b"third"


async def test_a_crash_between_the_renames_leaves_the_one_before(tmp_path: Path) -> None:
    """A process that dies just when the newest was moved away, before the new one is in place, loses only that one."""
    store = FolderSnapshots(tmp_path)
    await store.save(KEY, b"first")
    newest(tmp_path).rename(newest(tmp_path).with_suffix(".previous"))
    assert (await store.load(KEY))[0] == b"first"
    assert list(await store.keys()) == [KEY]
    await store.save(KEY, b"second")
    assert (await store.load(KEY))[0] == b"second"

"""Metric folders that are made to hurt: many files, strange ones, endless ones, and databases that compute."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from steepest.errors import UntrustedError
from steepest.training_logs.sources import tail
from steepest.training_logs.sources.mlflow import MAX_LINE_BYTES, MetricFileReader, MlflowDatabase
from steepest.training_logs.sources.tail import follow, follow_folder
from steepest.training_logs.syntax.words import LONGEST_NAME, role_of

POLL_S = 0.01


def descriptors() -> int:
    """How many this process holds."""
    return len(os.listdir("/dev/fd"))  # noqa: PTH208 - the names are all that is wanted


async def all_of(folder: Path, pattern: str = "metrics/*") -> dict[str, bytes]:
    """What a folder holds now, by file."""
    stop = asyncio.Event()
    stop.set()
    found: dict[str, bytes] = {}
    async for path, chunk in follow_folder(folder, pattern, below=folder, stop=stop, poll_s=POLL_S):
        found[path.name] = found.get(path.name, b"") + chunk.data
    return found


async def test_many_files_are_followed_to_a_bound_and_none_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of more files than a process may open costs one descriptor; those beyond the bound are passed over."""
    monkeypatch.setattr(tail, "FILES_MOST", 50)
    (tmp_path / "metrics").mkdir()
    for number in range(80):
        (tmp_path / "metrics" / f"{number:03}").write_bytes(b"x")
    before = descriptors()
    stop = asyncio.Event()
    seen = []
    async with aclosing(follow_folder(tmp_path, "metrics/*", below=tmp_path, stop=stop, poll_s=POLL_S)) as chunks:
        async for path, _ in chunks:
            seen.append(path.name)
            assert descriptors() <= before + 2
            if len(seen) == 50:
                stop.set()

    assert seen == [f"{number:03}" for number in range(50)]


async def test_a_file_that_grew_is_read_on_and_one_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    """Though no file stays open between two looks, each goes on where it was."""
    (tmp_path / "metrics").mkdir()
    grows, replaced = tmp_path / "metrics" / "grows", tmp_path / "metrics" / "replaced"
    grows.write_bytes(b"one")
    replaced.write_bytes(b"one")
    async with aclosing(follow_folder(tmp_path, "metrics/*", below=tmp_path, poll_s=POLL_S)) as chunks:
        assert [(await anext(chunks))[1].data for _ in range(2)] == [b"one", b"one"]
        with grows.open("ab") as file:
            file.write(b"two")
        assert (await anext(chunks))[1].data == b"two"
        other = tmp_path / "other"
        other.write_bytes(b"anew")
        other.rename(replaced)
        path, chunk = await anext(chunks)

        assert (path, chunk.data, chunk.begins) == (replaced, b"anew", True)


async def test_what_lies_too_deep_or_leads_elsewhere_is_passed_over(tmp_path: Path) -> None:
    """What is within the bounds is read all the same."""
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics" / "loss").write_bytes(b"x")
    (tmp_path / "metrics" / "link").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "metrics" / "pipe")
    (tmp_path / "metrics" / "up").symlink_to(tmp_path)
    tmp_path.joinpath(*["d"] * 50).mkdir(parents=True)

    assert await all_of(tmp_path) == {"loss": b"x"}


@pytest.mark.parametrize("put", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
async def test_what_is_no_file_is_waited_for(tmp_path: Path, put: object) -> None:
    """A pipe, folder or link has nothing to read; a file in its place has."""
    path = tmp_path / "job.log"
    assert callable(put)
    put(path)
    stop = asyncio.Event()
    async with aclosing(follow(path, below=tmp_path, stop=stop, poll_s=POLL_S)) as chunks:
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        path.rename(tmp_path / "other")
        path.write_bytes(b"x")

        assert (await waiting).data == b"x"
        path.unlink()
        path.symlink_to("/dev/zero")
        stop.set()
        assert [chunk async for chunk in chunks] == []


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT"


@pytest.mark.parametrize(
    "schema",
    [
        f"CREATE VIEW metrics AS {ENDLESS} x AS rowid, '' AS run_uuid, '' AS key, 1 AS value, x AS step, 0 AS is_nan FROM n",
        "CREATE VIEW metrics AS SELECT 1",
        "CREATE VIRTUAL TABLE metrics USING fts5(run_uuid, key, value, step, is_nan)",
        "CREATE TABLE other (x)",
    ],
)
def test_only_a_table_is_asked_for_metrics(tmp_path: Path, schema: str) -> None:
    """A view or a virtual table is a program of its author's, and is refused before it runs."""
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        try:
            database.execute(schema)
        except sqlite3.OperationalError:
            pytest.skip("this SQLite has no such module")
    database.close()

    with pytest.raises(sqlite3.DatabaseError, match="no table"):
        MlflowDatabase(tmp_path / "mlflow.db", below=tmp_path).poll()


@pytest.mark.long
def test_a_table_that_computes_is_given_up(tmp_path: Path) -> None:
    """Generated columns are programs as well; an answer that does not come is no answer."""
    computes = "length(replace(hex(zeroblob(30000)), '0', '0123456789'))"
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        database.execute(f"CREATE TABLE metrics (run_uuid, key, x, step, is_nan, value AS ({computes}))")
        database.executemany("INSERT INTO metrics (run_uuid, key, x) VALUES ('r', 'loss', ?)", [(1,)] * 5000)
    database.close()

    with pytest.raises(sqlite3.DatabaseError):
        MlflowDatabase(tmp_path / "mlflow.db", below=tmp_path).poll()


@pytest.mark.parametrize("put", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/etc/passwd")])
def test_a_database_that_is_no_file_is_not_opened(tmp_path: Path, put: object) -> None:
    """SQLite would follow the link, and wait for the pipe."""
    assert callable(put)
    put(tmp_path / "mlflow.db")

    with pytest.raises(UntrustedError):
        MlflowDatabase(tmp_path / "mlflow.db", below=tmp_path).poll()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with a table of one metric, in a folder of its own."""
    path = tmp_path / "store" / "mlflow.db"
    path.parent.mkdir()
    with sqlite3.connect(path) as made:
        made.execute("CREATE TABLE metrics (run_uuid, key, value, step, is_nan)")
        made.execute("INSERT INTO metrics VALUES ('r', 'loss', 0.5, 1, 0)")
    made.close()
    return path


def test_a_database_behind_a_link_is_not_opened(tmp_path: Path, database: Path) -> None:
    """Of a path, every part below the trusted folder is one that a job may replace."""
    (tmp_path / "link").symlink_to(database.parent)

    with pytest.raises(UntrustedError, match="link"):
        MlflowDatabase(tmp_path / "link" / "mlflow.db", below=tmp_path).poll()


@pytest.mark.parametrize("beside", ["-journal", "-wal"])
def test_what_lies_beside_a_database_is_not_touched(tmp_path: Path, database: Path, beside: str) -> None:
    """SQLite would wait for a pipe there, or read what a link leads to."""
    os.mkfifo(f"{database}{beside}")

    assert [one.value for one in MlflowDatabase(database, below=tmp_path).poll()] == [0.5]


def test_a_database_with_a_log_of_its_own_is_read_as_far_as_it_was_written(tmp_path: Path, database: Path) -> None:
    """SQLite keeps the newest transactions in another file then."""
    with sqlite3.connect(database) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
    try:
        assert [one.value for one in MlflowDatabase(database, below=tmp_path).poll()] == [0.5]
    finally:
        writer.close()


WRITER = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN EXCLUSIVE")
database.execute("INSERT INTO metrics VALUES ('r', 'loss', 0.25, 2, 0)")
print(flush=True)
input()
database.execute("COMMIT")
"""


def test_a_database_is_read_between_transactions(tmp_path: Path, database: Path) -> None:
    """While its writer changes it there is nothing new, and nothing half written; after that it is all there."""
    reader = MlflowDatabase(database, below=tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        assert reader.poll() == []
        writer.communicate("\n")

    assert [one.value for one in reader.poll()] == [0.5, 0.25]


def test_a_database_of_any_size_costs_a_bounded_part_of_memory(tmp_path: Path) -> None:
    """One of a tebibyte without content is refused as it is."""
    (tmp_path / "mlflow.db").touch()
    os.truncate(tmp_path / "mlflow.db", 1 << 40)

    with pytest.raises(UntrustedError, match="larger"):
        MlflowDatabase(tmp_path / "mlflow.db", below=tmp_path).poll()


def test_a_name_is_remembered_to_its_bound() -> None:
    """Of a name of megabytes, as a metric or as what was looked up before, no more is kept."""
    name = role_of("x" * 900_000 + "loss")

    assert len(name.metric) == LONGEST_NAME
    assert role_of("x" * 900_000 + "other") == name


def test_a_file_of_one_endless_line_is_no_metric() -> None:
    """It is not held, and nothing behind it is read."""
    reader = MetricFileReader("loss")
    assert reader.feed(b"1 2.0 1\n" + b"x" * (MAX_LINE_BYTES + 1))

    assert reader.feed(b"\n1 2.0 2\n") == []
    assert reader._lines.pending == 0

"""MLflow's file store and its database, as they grow."""

import asyncio
import math
import sqlite3
from pathlib import Path

import pytest

from steepest.training_logs.sources.mlflow import MetricFileReader, MlflowDatabase
from steepest.training_logs.sources.tail import follow_folder


def test_a_metrics_file_is_read_line_by_line() -> None:
    """``timestamp value step`` lines give steps, a missing step is counted, and other lines are passed over."""
    reader = MetricFileReader("val_loss")
    records = reader.feed(b"1700000000000 0.5 10\n1700000001000 nan 20\nnot a metric\n17000000")

    assert [(one.step, one.metric, one.split, one.line) for one in records] == [
        (10, "val_loss", "eval", 1),
        (20, "val_loss", "eval", 2),
    ]
    assert math.isnan(records[1].value)


@pytest.mark.parametrize("cut", range(0, 30, 7))
def test_a_metrics_file_may_come_in_pieces(cut: int) -> None:
    """Cut in the middle of a line, nothing is lost and nothing doubled."""
    data = b"1 0.5 10\n2 0.25 20\n3 0.125 30\n"
    reader = MetricFileReader("loss")

    assert [one.step for one in reader.feed(data[:cut]) + reader.feed(data[cut:])] == [10, 20, 30]


async def test_a_run_folder_is_followed_as_metrics_come(tmp_path: Path) -> None:
    """Metrics that a run writes later are found, and each file's bytes arrive once."""
    metrics = tmp_path / "mlruns" / "0" / "run" / "metrics"
    stop = asyncio.Event()
    seen: dict[str, bytes] = {}
    async for path, chunk in follow_folder(
        tmp_path / "mlruns", "metrics/*", below=tmp_path, stop=stop_after(stop, metrics), poll_s=0.01
    ):
        seen[path.name] = seen.get(path.name, b"") + chunk.data
        if path.name == "loss":
            (metrics / "val_loss").write_bytes(b"1 0.25 1\n")
        else:
            stop.set()

    assert seen == {"loss": b"1 0.5 1\n", "val_loss": b"1 0.25 1\n"}


def stop_after(stop: asyncio.Event, metrics: Path) -> asyncio.Event:
    """Writes the first metric and passes the event on."""
    metrics.mkdir(parents=True)
    (metrics / "loss").write_bytes(b"1 0.5 1\n")
    return stop


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with the columns of MLflow's ``metrics`` table that are read."""
    path = tmp_path / "mlflow.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE metrics (key TEXT, value REAL NOT NULL, timestamp INTEGER NOT NULL, run_uuid TEXT NOT NULL,"
            " step INTEGER NOT NULL DEFAULT 0, is_nan BOOLEAN NOT NULL DEFAULT 0,"
            " PRIMARY KEY (key, timestamp, step, run_uuid, value, is_nan))"
        )
    connection.close()
    return path


def insert(path: Path, *rows: tuple[str, float, str, int, bool]) -> None:
    """Adds rows as (key, value, run, step, is_nan)."""
    with sqlite3.connect(path) as connection:
        connection.executemany(
            "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, 1, ?, ?, ?)", rows
        )
    connection.close()


def test_the_database_is_polled_for_new_rows(database: Path) -> None:
    """Each poll yields what was added since, of all runs, NaN included."""
    reader = MlflowDatabase(database, below=database.parent)
    insert(database, ("loss", 0.5, "a", 1, False), ("loss", 0.7, "b", 1, False), ("lr", 0.1, "a", 1, False))
    first = reader.poll()
    insert(database, ("loss", 0.0, "a", 2, True))
    second = reader.poll()

    assert [(one.step, one.value) for one in first] == [(1, 0.5), (1, 0.7)]
    assert [one.step for one in second] == [2]
    assert math.isnan(second[0].value)
    assert reader.poll() == []


def test_a_database_that_is_not_there_yet_has_no_metrics(tmp_path: Path) -> None:
    """A missing file is waited for; a file that is no database is an error."""
    assert MlflowDatabase(tmp_path / "mlflow.db", below=tmp_path).poll() == []

    (tmp_path / "other.db").write_bytes(b"no database" * 100)
    with pytest.raises(sqlite3.DatabaseError):
        MlflowDatabase(tmp_path / "other.db", below=tmp_path).poll()

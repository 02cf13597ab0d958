"""A job's metric folder: what is found in it, and under which numbers."""

from __future__ import annotations

import asyncio
import sqlite3
import struct
from pathlib import Path

import pytest

from steepest.clock import SystemClock
from steepest.cluster.port import MetricsPlace
from steepest.collector.folders import Batch, MetricFolder, split_of
from steepest.training_logs.sources.tensorboard import masked_crc32c


def frame(payload: bytes) -> bytes:
    """A TFRecord frame, as TensorBoard's documentation of its files has it."""
    length = struct.pack("<Q", len(payload))
    crc = struct.pack("<I", masked_crc32c(length)), struct.pack("<I", masked_crc32c(payload))
    return length + crc[0] + payload + crc[1]


def scalar(step: int, tag: bytes, value: float) -> bytes:
    """An event with one scalar: wall time, step, and a summary of one value."""
    item = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(item)]) + item
    return frame(b"\x09" + struct.pack("<d", 1.0) + b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary)


async def everything(folder: MetricFolder, kind: str) -> list[Batch]:
    """All that is there now."""
    stop = asyncio.Event()
    stop.set()
    return [batch async for batch in getattr(folder, kind)(stop)]


async def test_scalars_of_event_files_are_found(tmp_path: Path) -> None:
    """Each event file is a source of its own, and its scalars are numbered by their place."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "events.out.tfevents.1").write_bytes(scalar(1, b"loss", 2.0) + scalar(2, b"loss", 1.5))

    batches = await everything(MetricFolder(MetricsPlace(tmp_path, tmp_path), None, SystemClock()), "tensorboard")

    assert [batch.source for batch in batches] == ["run/events.out.tfevents.1"]
    assert [(record.step, record.metric, record.value) for record in batches[0].records] == [
        (1, "loss", 2.0),
        (2, "loss", 1.5),
    ]
    assert batches[0].numbers[0] < batches[0].numbers[1]


async def test_reading_again_gives_the_same_numbers(tmp_path: Path) -> None:
    """A collector that restarts, or an incarnation that continues in the folder, repeats only events that are recognised."""
    metrics = tmp_path / "0" / "run" / "metrics"
    metrics.mkdir(parents=True)
    (metrics / "loss").write_text("1 2.0 1\n2 1.5 2\n")
    first = await everything(MetricFolder(MetricsPlace(tmp_path, tmp_path), None, SystemClock()), "mlflow_files")
    (metrics / "loss").write_text("1 2.0 1\n2 1.5 2\n3 1.25 3\n")

    second = await everything(MetricFolder(MetricsPlace(tmp_path, tmp_path), None, SystemClock()), "mlflow_files")

    assert [*second[0].numbers][:2] == [*first[0].numbers]
    assert second[0].numbers[2] > first[0].numbers[1]
    assert second[0].source == first[0].source


async def test_a_database_that_is_none_is_told_and_left(tmp_path: Path) -> None:
    """A file that only has the name of MLflow's database stops nothing."""
    (tmp_path / "mlflow.db").write_bytes(b"no database" * 100)

    assert (
        await everything(MetricFolder(MetricsPlace(tmp_path, tmp_path), None, SystemClock()), "mlflow_database") == []
    )


async def test_rows_of_mlflows_database_are_found(tmp_path: Path) -> None:
    """The metrics of MLflow's database are read in the order of their rows."""
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        database.execute("CREATE TABLE metrics (key, value, timestamp, run_uuid, step, is_nan)")
        database.executemany("INSERT INTO metrics VALUES ('loss', ?, 0, 'r', ?, 0)", [(2.0, 1), (1.5, 2)])
    database.close()

    batches = await everything(MetricFolder(MetricsPlace(tmp_path, tmp_path), None, SystemClock()), "mlflow_database")

    assert [record.value for record in batches[0].records] == [2.0, 1.5]


@pytest.mark.parametrize(("path", "split"), [("logs/train/events", None), ("logs/validation/events", "eval")])
def test_a_folder_may_say_the_split(path: str, split: str | None) -> None:
    """Keras writes its validation scalars to a folder of that name."""
    assert split_of(Path(path)) == split

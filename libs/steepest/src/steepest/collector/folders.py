"""Follows a job's metric folder: TensorBoard event files and MLflow's stores.

Each file is a source of its own, whose records are numbered by their position in the file and not by the incarnation that
wrote them. So no cursor is stored: a collector that restarts reads the folder from its beginning, and readers of the
log drop the records that they have seen.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from steepest.aio import until_stopped
from steepest.clock import Clock
from steepest.cluster.port import MetricsPlace
from steepest.collector.source import numbered
from steepest.errors import UntrustedError
from steepest.logger import Logger
from steepest.training_logs.records import LossRecord, Split
from steepest.training_logs.sources.mlflow import MetricFileReader, MlflowDatabase
from steepest.training_logs.sources.tail import follow_folder
from steepest.training_logs.sources.tensorboard import EventReader

logger = Logger()

TENSORBOARD = "events.out.tfevents.*"
MLFLOW_FILES = "metrics/*"
MLFLOW_DATABASE = "mlflow.db"
POLL_S = 1.0
"""MLflow and TensorBoard flush every few seconds themselves."""

READING_SHARE = 0.02
"""Maximum share of time spent on one database: a large one is read less often."""

METRICS_MOST = 2000
"""Metrics that are tracked in one folder: each with its latest positions, about 100 MiB in total."""


class FileDecoder(Protocol):
    """Decodes the bytes of one file."""

    @property
    def metrics(self) -> int:
        """Number of metrics tracked."""

    def feed(self, chunk: bytes) -> list[LossRecord]:
        """The records that the next bytes complete."""


class Batch(msgspec.Struct, frozen=True):
    """Records of one source with their sequence numbers, which increase within the source."""

    source: str
    records: Sequence[LossRecord]
    numbers: Sequence[int]


class MetricFolder:
    """The readable sources in one folder."""

    def __init__(self, place: MetricsPlace, metric: str | None, clock: Clock) -> None:
        self._folder, self._below = place
        self._metric = metric
        self._clock = clock

    async def tensorboard(self, stop: asyncio.Event) -> AsyncIterator[Batch]:
        """Yield the scalars of event files, until ``stop`` is set and all are read."""
        async for batch in self._files(TENSORBOARD, lambda path: EventReader(self._metric, split=split_of(path)), stop):
            yield batch

    async def mlflow_files(self, stop: asyncio.Event) -> AsyncIterator[Batch]:
        """Yield the metrics of MLflow's file store, until ``stop`` is set and all are read."""
        async for batch in self._files(MLFLOW_FILES, lambda path: MetricFileReader(path.name), stop):
            yield batch

    async def mlflow_database(self, stop: asyncio.Event) -> AsyncIterator[Batch]:
        """Yield the metrics of MLflow's database, until ``stop`` is set and all are read."""
        database = MlflowDatabase(self._folder / MLFLOW_DATABASE, below=self._below, metric=self._metric)
        while True:
            last = stop.is_set()
            began = self._clock.monotonic()
            try:
                records = await asyncio.to_thread(database.poll)
            except (sqlite3.DatabaseError, UntrustedError) as error:
                logger.warning("not an MLflow database", file=str(self._folder / MLFLOW_DATABASE), why=str(error))
                return
            if records:
                yield Batch(MLFLOW_DATABASE, records, [numbered(record) for record in records])
            if last:
                return
            took_s = self._clock.monotonic() - began
            await until_stopped(self._clock.sleep(max(POLL_S, took_s / READING_SHARE)), stop)

    async def _files(
        self, pattern: str, make: Callable[[Path], FileDecoder], stop: asyncio.Event
    ) -> AsyncIterator[Batch]:
        readers: dict[Path, FileDecoder | None] = {}
        following = follow_folder(self._folder, pattern, below=self._below, stop=stop, poll_s=POLL_S)
        async for path, chunk in following:
            if path not in readers or chunk.begins:
                readers[path] = make(path)
            reader = readers[path]
            if reader is None:
                continue
            records = reader.feed(chunk.data)
            if records and sum(one.metrics for one in readers.values() if one is not None) > METRICS_MOST:
                logger.warning("too many metrics; file no longer followed", file=str(path), most=METRICS_MOST)
                readers[path] = None
            elif records:
                source = str(path.relative_to(self._folder))
                yield Batch(source, records, [numbered(record) for record in records])


def split_of(path: Path) -> Split | None:
    """The split that a file's folders imply; Keras writes to ``train`` and ``validation``."""
    return "eval" if {"validation", "eval", "test"} & {part.lower() for part in path.parts} else None

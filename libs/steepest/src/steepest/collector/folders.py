"""A job's metric folder: TensorBoard event files and MLflow's stores in it, read as they grow.

Each file is a source of its own, numbered by its contents and not by the incarnation that wrote it: an incarnation that goes
on in the same folder repeats nothing, because what was sent before is not beyond what its reader has seen. So no place is
kept; a collector that starts anew reads the folder from its beginning, and its reader drops the repetitions.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import structlog

from steepest.clock import Clock
from steepest.collector.source import numbered
from steepest.errors import UntrustedError
from steepest.training_logs.records import LossRecord, Split
from steepest.training_logs.sources.mlflow import MetricFileReader, MlflowDatabase
from steepest.training_logs.sources.tail import follow_folder
from steepest.training_logs.sources.tensorboard import EventReader
from steepest.untrusted.threads import apart

logger = structlog.get_logger(__name__)

TENSORBOARD = "events.out.tfevents.*"
MLFLOW_FILES = "metrics/*"
MLFLOW_DATABASE = "mlflow.db"
POLL_S = 1.0
"""MLflow and TensorBoard flush every few seconds themselves."""

ANSWER_S = 10.0
"""A database answers or gives up in a second; after this long it is in a call that never comes back."""

METRICS_MOST = 2000
"""Metrics that are remembered of one folder: of each its latest places, so some 100 MiB at most."""


class Reader(Protocol):
    """What reads one file's bytes."""

    @property
    def metrics(self) -> int:
        """How many metrics are remembered."""

    def feed(self, chunk: bytes) -> list[LossRecord]:
        """The records that the next bytes complete."""


class Batch(msgspec.Struct, frozen=True):
    """Records of one source with their numbers, which rise within the source."""

    source: str
    records: Sequence[LossRecord]
    numbers: Sequence[int]


class MetricFolder:
    """Everything in one folder that can be read."""

    def __init__(self, folder: Path, metric: str | None, clock: Clock) -> None:
        self._folder = folder
        self._metric = metric
        self._clock = clock

    async def tensorboard(self, stop: asyncio.Event) -> AsyncIterator[Batch]:
        """Scalars of event files, until ``stop`` is set and all is read."""
        async for batch in self._files(TENSORBOARD, lambda path: EventReader(self._metric, split=split_of(path)), stop):
            yield batch

    async def mlflow_files(self, stop: asyncio.Event) -> AsyncIterator[Batch]:
        """Metrics of MLflow's file store, likewise."""
        async for batch in self._files(MLFLOW_FILES, lambda path: MetricFileReader(path.name), stop):
            yield batch

    async def mlflow_database(self, stop: asyncio.Event) -> AsyncIterator[Batch]:
        """Metrics of MLflow's database, likewise."""
        database = MlflowDatabase(self._folder / MLFLOW_DATABASE, metric=self._metric)
        while True:
            last = stop.is_set()
            try:
                records = await apart(database.poll, timeout_s=ANSWER_S)
            except (sqlite3.DatabaseError, UntrustedError, TimeoutError) as error:
                logger.warning("not a database of MLflow's", file=str(self._folder / MLFLOW_DATABASE), why=str(error))
                return
            if records:
                yield Batch(MLFLOW_DATABASE, records, [numbered(record) for record in records])
            if last:
                return
            await _wait(stop, self._clock)

    async def _files(self, pattern: str, make: Callable[[Path], Reader], stop: asyncio.Event) -> AsyncIterator[Batch]:
        readers: dict[Path, Reader | None] = {}
        async for path, chunk in follow_folder(self._folder, pattern, stop=stop, poll_s=POLL_S):
            if path not in readers or chunk.begins:
                readers[path] = make(path)
            reader = readers[path]
            if reader is None:
                continue
            records = reader.feed(chunk.data)
            if records and sum(one.metrics for one in readers.values() if one is not None) > METRICS_MOST:
                logger.warning("more metrics than are followed", file=str(path), most=METRICS_MOST)
                readers[path] = None
            elif records:
                source = str(path.relative_to(self._folder))
                yield Batch(source, records, [numbered(record) for record in records])


def split_of(path: Path) -> Split | None:
    """What a file's folder says of its split; Keras writes to ``train`` and ``validation``."""
    return "eval" if {"validation", "eval", "test"} & {part.lower() for part in path.parts} else None


async def _wait(stop: asyncio.Event, clock: Clock) -> None:
    """Until ``stop`` is set, for ``POLL_S`` at most."""
    stopped = asyncio.ensure_future(stop.wait())
    slept = asyncio.ensure_future(clock.sleep(POLL_S))
    try:
        await asyncio.wait((stopped, slept), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        slept.cancel()

"""Follows MLflow's two stores: files of ``timestamp value step`` lines, and the SQLite database.

It owns both layouts. The files are MLflow's older default (``mlruns/<experiment>/<run>/metrics/<name>``), the database
(``mlflow.db``) its newer one. It must never write to either.
"""

import fcntl
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from steepest.training_logs.ledger import MetricSeries, Position, Reading, to_records
from steepest.training_logs.records import LossRecord
from steepest.training_logs.syntax.line_splitter import Block, LineCursor, LineSplitter
from steepest.training_logs.syntax.numbers import to_number, to_step
from steepest.training_logs.syntax.words import is_reported, plain, role_of
from steepest.untrusted.files import content_of, open_file

FORMAT_NAME = "mlflow"

MAX_LINE_BYTES = 4096
"""A time, a number and a step take sixty bytes."""

MAX_DATABASE_BYTES = 64 << 20
"""Of a database that is read: some hundred thousand metrics."""

MAX_RUNS = 100
"""Runs of one database that are tracked; further runs are not read."""

_MIN_FIELDS = 2
_POLL_S = 1.0
_INSTRUCTIONS = 1_000
_LONGEST_VALUE = 1 << 16
_ROWS_AT_ONCE = 10_000
_SHARED_FIRST, _SHARED_BYTES = 0x40000002, 510
"""What a reader of SQLite's locks: as long as it does, the file is as the last transaction has left it."""

_VERSIONS, _NO_WAL = slice(18, 20), b"\1\1"
_IS_TABLE = (
    "SELECT count(*) FROM sqlite_master WHERE name = 'metrics' AND type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
)
_QUERY = "SELECT rowid, run_uuid, key, value, step, is_nan FROM metrics WHERE rowid > ? ORDER BY rowid LIMIT ?"


class MetricFileReader:
    """Reads one metric's file of the file store.

    Args:
        name: the metric's name: the file's path below ``metrics``, slashes included.
    """

    def __init__(self, name: str) -> None:
        self._name = role_of(name)
        self._lanes: dict[str, MetricSeries] = {}
        self._lines = LineSplitter(LineCursor())
        self._lost = False

    @property
    def metrics(self) -> int:
        """Number of metrics tracked."""
        return len(self._lanes)

    def feed(self, chunk: bytes) -> list[LossRecord]:
        """Takes the file's next bytes, split anywhere; lines in another format are skipped.

        A line longer than ``MAX_LINE_BYTES`` shows that it is not a metric's file: reading stops.
        """
        if self._lost:
            return []
        records = [record for block in self._lines.feed(chunk) for record in self._read(block)]
        if self._lines.pending > MAX_LINE_BYTES:
            self._lost, self._lines = True, LineSplitter(LineCursor())
        return records

    def _read(self, block: Block) -> list[LossRecord]:
        records = []
        position = block.offset
        for number, line in enumerate(block.data.split(b"\n")[:-1], block.line):
            position += len(line) + 1
            found = self._found(line.split())
            if found is None:
                continue
            records += to_records(self._lanes, found, (number, position, 0), FORMAT_NAME)
        return records

    def _found(self, fields: list[bytes]) -> Reading | None:
        value = to_number(fields[1].decode("ascii", "replace")) if len(fields) >= _MIN_FIELDS else None
        if value is None:
            return None
        step = to_step(fields[2]) if len(fields) > _MIN_FIELDS else None
        return Reading(self._name.metric, value, self._name.split or "train", _at(step))


class MlflowDatabase:
    """Reads the metrics of all runs from MLflow's SQLite database.

    Args:
        path: the database; if it does not exist yet, it has no metrics.
        below: nothing below this folder is trusted.
        metric: report only this metric; None: every loss and every held-out quality.
    """

    def __init__(self, path: Path, *, below: Path, metric: str | None = None) -> None:
        self._path = path
        self._below = below
        self._wanted = None if metric is None else plain(metric)
        self._after = 0
        self._lanes: dict[str, dict[str, MetricSeries]] = {}

    def poll(self) -> list[LossRecord]:
        """The records that were added since the last call; ``line`` and ``position`` are the row's number.

        Raises:
            sqlite3.DatabaseError: The file is not an MLflow database, or takes longer than a second to answer.
            UntrustedError: It is not a regular file, its path contains a link, or it is too large.
        """
        try:
            image = self._image()
        except (FileNotFoundError, BlockingIOError):  # not yet, or in the middle of a transaction
            return []
        records = []
        for row, run, key, value, step, is_nan in self._rows(image) if image else ():
            self._after = row
            found = self._found(key, float("nan") if is_nan else value, step)
            if found is None:
                continue
            if run not in self._lanes and len(self._lanes) >= MAX_RUNS:
                continue
            records += to_records(self._lanes.setdefault(run, {}), found, (row, row, 0), FORMAT_NAME)
        return records

    def _image(self) -> bytes:
        """The database between two transactions. SQLite itself would follow links, and wait for a pipe beside it.

        Of a database with a write-ahead log, what the log alone has is missing.
        """
        descriptor = open_file(self._path, below=self._below)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, _SHARED_BYTES, _SHARED_FIRST)
            image = bytearray(content_of(descriptor, self._path, most=MAX_DATABASE_BYTES))
        finally:
            os.close(descriptor)
        image[_VERSIONS] = _NO_WAL[: len(image[_VERSIONS])]
        return bytes(image)

    def _rows(self, image: bytes) -> list[tuple[Any, ...]]:
        """Query the new rows, in limited time. A view named ``metrics`` would run the job's SQL, so it must be a table."""
        until = time.monotonic() + _POLL_S
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(image)
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
            database.set_progress_handler(lambda: time.monotonic() > until, _INSTRUCTIONS)
            database.execute("PRAGMA trusted_schema = OFF")
            if not database.execute(_IS_TABLE).fetchone()[0]:
                raise sqlite3.DatabaseError("it has no table of metrics")
            return database.execute(_QUERY, (self._after, _ROWS_AT_ONCE)).fetchall()

    def _found(self, key: object, value: object, step: object) -> Reading | None:
        if not isinstance(key, str) or not isinstance(value, int | float):
            return None
        name = role_of(key)
        split = name.split or "train"
        if not is_reported(name, split, self._wanted):
            return None
        return Reading(name.metric, float(value), split, _at(step if isinstance(step, int) else None))


def _at(step: int | None) -> Position:
    return Position(step, None if step is None else (step,))

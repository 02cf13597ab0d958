"""Owns ``reports.jsonl``: appends complete lines even after errors, and never raises into a training."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import SupportsFloat

from steepest_sdk.notes import OnceWarner


class ReportFile:
    """Appends reports to a file; threads may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.total: int | None = None
        self.epochs: int | None = None
        self._file: int | None = None
        self._torn = False
        self._warner = OnceWarner()

    def append(self, step: int, epoch: int | None, metrics: Mapping[str, SupportsFloat]) -> None:
        """Appends one line; a failure is logged once, and the report is skipped."""
        line: dict[str, object] = {"step": step}
        if epoch is not None:
            line["epoch"] = epoch
        if self.total is not None:
            line["total"] = self.total
        if self.epochs is not None:
            line["epochs"] = self.epochs
        line["at_ms"] = time.time_ns() // 1_000_000
        line["metrics"] = self._values(metrics)
        content = json.dumps(line, allow_nan=False).encode() + b"\n"
        with self._lock:
            try:
                self._write(content)
            except OSError as error:
                self._warner.once("write", f"cannot write {self._path}: {error}")

    def _values(self, metrics: Mapping[str, SupportsFloat]) -> dict[str, float | str]:
        values: dict[str, float | str] = {}
        for name, metric in metrics.items():
            try:
                value = float(metric)
            except Exception as error:  # noqa: BLE001 - a tensor's own conversion may raise anything
                self._warner.once(name, f"the metric {name!r} is skipped, it is not a number: {error}")
            else:
                values[name] = value if math.isfinite(value) else str(value)
        return values

    def _write(self, content: bytes) -> None:
        if self._file is None:
            self._file = self._open()
        # A full disk may have left half a line: end that line first, so that this one is not lost too.
        if self._torn:
            content = b"\n" + content
        written = os.write(self._file, content)
        self._torn = not content[:written].endswith(b"\n") if written else self._torn
        if written < len(content):
            raise OSError(f"only {written} of {len(content)} bytes were written")

    def _open(self) -> int:
        file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        size = os.fstat(file).st_size
        self._torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
        return file

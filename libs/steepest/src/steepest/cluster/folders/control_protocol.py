"""The cluster's side of the control folder: request a checkpoint, read the answer, release, follow the reports.

It owns the files of ``docs/control-folder.md`` as the cluster uses them. It must never know processes or time limits.
A file of the job may be wrong or hostile: it is skipped, and the reason is logged. Its calls block, for microseconds.
"""

from __future__ import annotations

import os
import stat
import threading
from typing import Any

import msgspec

from steepest.cluster.folders.adapter_folder import Hello, IncarnationFolder, warn_once
from steepest.errors import UntrustedError
from steepest.events.common import LARGEST, Count
from steepest.untrusted.files import open_file
from steepest.untrusted.json import decode

_CHUNK_BYTES = 1 << 16
_SKIP_BEYOND_BYTES = 1 << 20  # only the last step matters: a longer backlog is skipped


class CheckpointAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``checkpoint-ack.json``: either ``refused``, or the checkpoint that was written."""

    request: str
    name: str = ""
    step: Count = 0
    digest: str = ""
    refused: str | None = None


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    request: str
    hold_s: float = 0.0


class _Report(msgspec.Struct, frozen=True):
    """One report. The step counts also where the total or the epoch is not a number."""

    step: Count
    total: Any = None
    epoch: Any = None
    epochs: Any = None


def ask(folder: IncarnationFolder, request: str, hold_s: float) -> None:
    """Request a checkpoint; repeating the same request changes nothing."""
    asked = folder.read(folder.request, _Request)
    if asked is None or asked.request != request:
        folder.write(folder.request, {"request": request, "hold_s": hold_s})


def answer(folder: IncarnationFolder, request: str) -> CheckpointAnswer | None:
    """The job's answer to that request; None if there is none yet."""
    found = folder.read(folder.ack, CheckpointAnswer)
    return found if found is not None and found.request == request else None


def withdraw(folder: IncarnationFolder, request: str) -> None:
    """Withdraw the request and let the job continue, whether it has seen the request or not.

    The request is removed first: a job that read it after the release was written would hold again.
    """
    asked = folder.read(folder.request, _Request)
    if asked is not None and asked.request == request:
        folder.remove(folder.request)
    folder.write(folder.release, {"request": request})


def hello(folder: IncarnationFolder) -> Hello | None:
    """The announcement of a job when its training loop starts.

    Many jobs never do, and are asked at each heartbeat: to see that there is no file costs less than to open it safely.
    """
    return folder.read(folder.hello, Hello) if os.path.lexists(folder.hello) else None


class ReportsTail:
    """Follows ``reports.jsonl`` for the last step. It keeps one unfinished line of at most 64 KiB.

    Attributes:
        step: The last one reported; None before the first.
        total: The steps of the whole training, as they were stated last.
        epoch: The epoch of the last report that names one.
        epochs: The epochs of the whole training, as they were stated last.
    """

    def __init__(self, folder: IncarnationFolder) -> None:
        self._folder = folder
        self._offset = 0
        self._pending = b""
        self._reading = threading.Lock()
        self.step: int | None = None
        self.total: int | None = None
        self.epoch: float | None = None
        self.epochs: float | None = None

    def read(self) -> int | None:
        """Read what was appended since the last call; return the last step reported, None before the first."""
        if self._is_read():
            return self.step
        try:
            with self._reading:
                descriptor = open_file(self._folder.reports, below=self._folder.below)
                try:
                    self._catch_up(descriptor)
                finally:
                    os.close(descriptor)
        except FileNotFoundError:
            pass
        except (UntrustedError, OSError) as error:
            warn_once(self._folder.reports, str(error))
        return self.step

    def _is_read(self) -> bool:
        """Whether the file is as long as what was read of it, or not there: then it is not opened at all."""
        try:
            found = os.lstat(self._folder.reports)
            return stat.S_ISREG(found.st_mode) and found.st_size == self._offset
        except OSError as error:
            return isinstance(error, FileNotFoundError)

    def _catch_up(self, descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        if size < self._offset:
            self._offset, self._pending = 0, b""
        if size - self._offset > _SKIP_BEYOND_BYTES:
            self._offset, self._pending = size - _CHUNK_BYTES, b""
        while self._offset < size and (chunk := os.pread(descriptor, _CHUNK_BYTES, self._offset)):
            self._offset += len(chunk)
            *lines, rest = (self._pending + chunk).split(b"\n")
            self._pending = rest if len(rest) <= _CHUNK_BYTES else b""
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        # After a skip the first line may be incomplete: then it does not decode.
        try:
            report = decode(line, _Report)
        except UntrustedError as error:
            if line.strip():
                warn_once(self._folder.reports, f"a line is not a report: {error}")
            return
        self.step = report.step
        self.total = self.total if (total := _whole(report.total)) is None else total
        self.epoch = self.epoch if (epoch := _number(report.epoch)) is None else epoch
        self.epochs = self.epochs if (epochs := _number(report.epochs)) is None else epochs


def _whole(value: object) -> int | None:
    """A number of steps, as far as an event can hold it."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST else None


def _number(value: object) -> float | None:
    """A number of epochs, as far as an event can hold it."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= LARGEST else None

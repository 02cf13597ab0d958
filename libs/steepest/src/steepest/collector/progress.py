"""How far each incarnation is, by its reports and its output: the part of heartbeats that the node does not measure.

It owns the newest of what was read. It must never know files, nor how often heartbeats are sent.
"""

from __future__ import annotations

import math
import re
from typing import TypeVar

import msgspec

from steepest.events.common import LARGEST, Activity
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport
from steepest.training_logs.records import LossRecord

T = TypeVar("T")

CHIEF = 0
"""The replica whose reports and output are read."""

LINE_BYTES = 300
"""The part of the newest line that is looked at, and kept across a restart."""

ACTIVITIES = tuple(
    (what, re.compile(rb"(?<![a-z])(" + words + rb")"))
    for what, words in (
        (Activity.SAVING, rb"sav(e|ing)|checkpoint|ckpt"),
        (Activity.EVALUATION, rb"eval|valid|val(?![a-z])|test"),
        (Activity.COMPILATION, rb"compil|autotun|tracing"),
        (Activity.LOADING, rb"load|download|tokeniz|cach|prepar|shuffl"),
    )
)
"""Words that say in a line what the job does next. A wrong guess names a phase wrongly; its silences are still learned."""


class ReadProgress(msgspec.Struct):
    """The newest of what was read of one incarnation; None where nothing was."""

    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    epochs: float | None = None
    loss: float | None = None
    activity: Activity | None = None

    def take(self, record: LossRecord, judged: str) -> None:
        """Take in a record. Only training says how far a job is; a step that was counted is not one of the training."""
        if record.split != "train":
            return
        if not record.step_counted:
            self.step = _newer(self.step, _whole(record.step))
        self.total = _newer(self.total, _whole(record.total))
        self.epoch = _newer(self.epoch, _number(record.epoch))
        self.epochs = _newer(self.epochs, _number(record.epochs))
        if record.metric == judged and math.isfinite(record.value):
            self.loss = record.value

    def hear(self, output: bytes) -> None:
        """Take in output. Its last line says what the job does until it prints again."""
        if line := output.replace(b"\r", b"\n").rstrip().rpartition(b"\n")[2][:LINE_BYTES].lower():
            self.activity = next((what for what, words in ACTIVITIES if words.search(line)), Activity.OTHER)


class ProgressBoard:
    """What was read of the newest incarnation of every job that is followed."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[int, ReadProgress]] = {}

    def begin(self, job: str, incarnation: int) -> ReadProgress:
        """An incarnation is read from here on: what its reader has to change."""
        read = ReadProgress()
        self._read[job] = (incarnation, read)
        return read

    def forget(self, job: str) -> None:
        """A job is over."""
        self._read.pop(job, None)

    def completed(self, beat: NodeHeartbeat) -> NodeHeartbeat:
        """A heartbeat with what was read of its replicas, where the node does not know it."""
        if not any(one.job in self._read for one in beat.replicas):
            return beat
        return msgspec.structs.replace(beat, replicas=tuple(map(self._completed, beat.replicas)))

    def _completed(self, report: ReplicaReport) -> ReplicaReport:
        incarnation, read = self._read.get(report.job, (0, None))
        if read is None or (report.incarnation, report.replica) != (incarnation, CHIEF):
            return report
        return msgspec.structs.replace(
            report,
            step=_newer(read.step, report.step),
            total=_newer(read.total, report.total),
            epoch=_newer(read.epoch, report.epoch),
            epochs=_newer(read.epochs, report.epochs),
            loss=_newer(report.loss, read.loss),
            activity=_newer(report.activity, read.activity),
        )


def _newer(before: T | None, now: T | None) -> T | None:
    return before if now is None else now


def _whole(number: int | None) -> int | None:
    return number if number is not None and 0 <= number <= LARGEST else None


def _number(number: float | None) -> float | None:
    return float(number) if number is not None and 0 <= number <= LARGEST else None

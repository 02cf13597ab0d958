"""Selects which of the reported metrics is the evaluation function that a job is judged by.

Pure. It owns the choice, and must never know where a value was read.

Rules: the first complete training loss is judged. Once there is a value of the metric that the job's user named, of any
split, that is judged for good. Before the first record it is the requested name. The choice stays as long as that metric is
reported: a script that prints two losses on each line is judged by one of them. After ``RENAMED_AFTER`` other metrics in a
row without it, the metric counts as renamed.
"""

from __future__ import annotations

from steepest.training_logs.records import LossRecord
from steepest.training_logs.syntax.words import is_complete

DEFAULT_METRIC = "loss"

RENAMED_AFTER = 10
"""More than the few other losses that a summary at the end of a training prints."""


class MetricSelection:
    """The choice after each record.

    Attributes:
        name: The judged metric; empty before the first record.
    """

    def __init__(self, asked: str) -> None:
        """``asked`` is the metric that the job's user named; ``loss`` stands for any name that a framework uses."""
        self._asked = asked
        self.name = ""
        self._chosen = False
        self._is_asked = False
        self._others = 0

    def is_named(self, metric: str) -> bool:
        """Whether the job's user named this metric."""
        return self._asked != DEFAULT_METRIC and metric.lower() == self._asked.lower()

    def is_wanted(self, metric: str) -> bool:
        """Whether it is the one that the user named, or named none."""
        return self._asked == DEFAULT_METRIC or self.is_named(metric)

    def take(self, record: LossRecord) -> bool:
        """Take a record; return whether the judged metric changes with it."""
        before = self.name
        if self.is_named(record.metric):
            self.name, self._is_asked = record.metric, True
        elif self._is_asked:
            return False
        elif self._may_be(record):
            self._see(record.metric)
        elif not self.name:
            self.name = self._asked
        return self.name != before

    def _may_be(self, record: LossRecord) -> bool:
        if self._asked == DEFAULT_METRIC:
            return record.split == "train" and is_complete(record.metric)
        return record.split == "train"

    def _see(self, metric: str) -> None:
        self._others = 0 if metric == self.name else self._others + 1
        if not self._chosen or self._others >= RENAMED_AFTER:
            self.name, self._chosen, self._others = metric, True, 0

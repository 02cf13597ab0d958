"""Which of the values that an incarnation reports is the evaluation function that its job is judged by.

Pure. It owns the choice, and must never know where a value was read.

Rules. The first whole training loss is judged, or what the job's user named; until one has come, the name that was asked for
stands. It is judged for as long as it comes: a script that prints two losses on each line is judged by one of them. Only
after ``RENAMED_AFTER`` others in a row without it has it another name.
"""

from __future__ import annotations

from steepest.training_logs.records import LossRecord, is_training_loss

DEFAULT_METRIC = "loss"

RENAMED_AFTER = 10
"""A summary at the end of a training prints a few other losses, and renames nothing."""


class MetricSelection:
    """The choice, as it stands after each record.

    Attributes:
        name: What is judged; empty before the first record.
    """

    def __init__(self, asked: str) -> None:
        """``asked`` is what the job's user says; ``loss`` stands for whatever its framework calls it."""
        self._asked = asked
        self.name = ""
        self._chosen = False
        self._others = 0

    def take(self, record: LossRecord) -> bool:
        """Whether another name than before is judged from this record on."""
        before = self.name
        if self._may_be(record):
            self._see(record.metric)
        elif not self.name:
            self.name = self._asked
        return self.name != before

    def _may_be(self, record: LossRecord) -> bool:
        if self._asked == DEFAULT_METRIC:
            return is_training_loss(record)
        return record.split == "train"

    def _see(self, metric: str) -> None:
        self._others = 0 if metric == self.name else self._others + 1
        if not self._chosen or self._others >= RENAMED_AFTER:
            self.name, self._chosen, self._others = metric, True, 0

"""Reads the loss that any training job prints, or writes beside itself.

``LogReader`` turns a log's bytes to ``LossRecord``; ``tail`` follows growing files; ``tensorboard`` and ``mlflow`` read
what those two write.
"""

from steepest.training_logs.reader import LogReader, ReaderState, Skipped
from steepest.training_logs.recognise import FormatError
from steepest.training_logs.records import LossRecord, is_training_loss
from steepest.training_logs.syntax.patterns import PatternError

__all__ = [
    "FormatError",
    "LogReader",
    "LossRecord",
    "PatternError",
    "ReaderState",
    "Skipped",
    "is_training_loss",
]

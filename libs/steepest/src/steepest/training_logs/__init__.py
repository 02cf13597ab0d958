"""Reads the losses that training jobs print or write to files.

``LogReader`` turns a log's bytes into ``LossRecord``s; ``tail`` follows growing files; ``tensorboard`` and ``mlflow`` read
the files of these two.
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

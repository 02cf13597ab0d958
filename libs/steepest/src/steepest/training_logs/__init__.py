"""Reads the losses that training jobs print or write to files.

``LogReader`` turns a log's bytes into ``LossRecord``s; ``tail`` follows growing files; ``tensorboard`` and ``mlflow`` read
the files of these two.
"""

from steepest.training_logs.explain import Explanation, Skipped
from steepest.training_logs.reader import FormatError, LogReader, ReaderState
from steepest.training_logs.records import LossRecord
from steepest.training_logs.syntax.patterns import PatternError

__all__ = ["Explanation", "FormatError", "LogReader", "LossRecord", "PatternError", "ReaderState", "Skipped"]

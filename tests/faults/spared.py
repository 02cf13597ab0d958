"""What a world leaves out: work that repeats in each of its processes, and measurements that no test reads.

Everything else is as without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from importlib.metadata import version
from typing import Self, TypeVar
from unittest import mock

from prometheus_client.metrics import MetricWrapperBase
from tests.faults import judge, world

from steepest.events.received import DecisionId
from steepest.log.base import Record
from steepest.replay import replay
from steepest.runtime import pool_loop, stream_loop
from steepest.runtime.decode import received
from steepest.runtime.monitoring import lag, metric_defs
from steepest.runtime.recovery import checksum_marks

T = TypeVar("T")

VERSION = version("steepest")
"""Each process looks it up in files as it starts."""

MARKED = 30
"""Records by which a log is known again: more than one cause makes in a world of thirty jobs."""

LOOK_EVERY_S = 5.0
"""How often a loop looks how far it is behind."""


class Uncounted(AbstractContextManager[None]):
    """Stands for each series of each metric."""

    def count(self, *_: object) -> None:
        """Do nothing with it."""

    inc = dec = set = observe = count

    def time(self) -> Self:
        """Seconds are not counted either."""
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to end."""


@contextmanager
def what_repeats_is_spared() -> Iterator[None]:
    """Look at each record once, however many processes read it, and count nothing in metrics."""
    uncounted = Uncounted()

    def labels(*_: object, **__: object) -> Uncounted:  # a mock would cost more than what it is to spare
        return uncounted

    taken_in = _once_a_record(received)
    with ExitStack() as spared:
        for reader in (pool_loop, stream_loop, replay, judge, world):
            spared.enter_context(mock.patch.object(reader, "received", taken_in))
        spared.enter_context(mock.patch.object(DecisionId, "parse", cache(DecisionId.parse)))
        spared.enter_context(mock.patch.object(checksum_marks, "_crc", _once_a_record(checksum_marks._crc)))
        spared.enter_context(mock.patch.object(checksum_marks, "RECORDS", MARKED))
        spared.enter_context(mock.patch.object(lag, "LOOK_EVERY_S", LOOK_EVERY_S))
        spared.enter_context(mock.patch.object(MetricWrapperBase, "labels", labels))
        spared.enter_context(mock.patch.object(metric_defs, "version", return_value=VERSION))
        yield


def _once_a_record(function: Callable[[Record], T]) -> Callable[[Record], T]:
    """The same function, which looks at each record once. What raises does so each time."""
    known: dict[int, tuple[Record, T]] = {}  # with the records, so that no other one gets the address of one of them

    def remembered(record: Record) -> T:
        found = known.get(id(record))
        if found is None:
            found = known[id(record)] = (record, function(record))
        return found[1]

    return remembered

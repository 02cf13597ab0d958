"""Counting function calls: measures the cost of work without a clock."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


def count_calls(run: Callable[[], T]) -> tuple[int, T]:
    """How many functions a run calls, Python's and C's, and what it gives."""
    counted = 0

    def count(_frame: FrameType, kind: str, _argument: object) -> None:
        nonlocal counted
        counted += kind in {"call", "c_call"}

    before = sys.getprofile()
    gc.disable()  # a collection would call the functions in gc.callbacks, and count them
    sys.setprofile(count)
    try:
        given = run()
    finally:
        sys.setprofile(before)
        gc.enable()
    return counted, given

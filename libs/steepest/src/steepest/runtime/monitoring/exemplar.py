"""Exemplars: the trace of one observation of a histogram, shown in the OpenMetrics format."""

from __future__ import annotations

from collections.abc import Mapping

from steepest.trace_context import trace_id, trace_in


def exemplar_of(headers: Mapping[str, str]) -> dict[str, str] | None:
    """The trace that a record belongs to, as labels of an exemplar; None if it belongs to none."""
    trace = trace_in(headers)
    return {"trace_id": trace_id(trace)} if trace else None

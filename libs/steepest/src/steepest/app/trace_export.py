"""The export of traces, where an installation asks for it. Without that, no library for it is imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from steepest.app.extras import refuse_without
from steepest.runtime.effector import Effector
from steepest.runtime.service import HeldPool
from steepest.tracing.effector import TraceExport


def trace_effectors(endpoint: str) -> Callable[[HeldPool], Sequence[Effector]]:
    """Makes what exports a pool's traces to this endpoint; nothing where it is empty.

    Raises:
        InputError: The libraries for it are missing.
    """
    if not endpoint:
        return lambda _: ()
    refuse_without(("opentelemetry",), "exporting traces needs", "install steepest[tracing]")
    from steepest.tracing.opentelemetry import SpanExport  # noqa: PLC0415 - an optional dependency

    export = SpanExport.to(endpoint)
    return lambda held: (TraceExport(export, held.pool),)

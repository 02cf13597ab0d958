"""Spans as OpenTelemetry's SDK exports them, read back from its own exporter in memory."""

from __future__ import annotations

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id

from steepest.trace_context import span_id, trace_begun, trace_continued, trace_id
from steepest.tracing.opentelemetry import SpanExport
from steepest.tracing.spans import Span

FIRST = trace_begun("a record")


def test_a_span_keeps_its_ids_times_and_error() -> None:
    """Ids are the log's, not the SDK's; times are nanoseconds; what failed is an error with its code."""
    memory = InMemorySpanExporter()
    export = SpanExport(SimpleSpanProcessor(memory))
    then = trace_continued(FIRST, "then")
    export(Span(name="first", traceparent=FIRST, begin_ms=5, end_ms=5))
    export(
        Span(name="then", traceparent=then, parent=FIRST, begin_ms=5, end_ms=9, attributes={"a": 1}, error="refused")
    )
    export.close()

    first, second = memory.get_finished_spans()
    assert first.context is not None
    assert second.context is not None
    assert second.parent is not None
    assert format_trace_id(second.context.trace_id) == format_trace_id(first.context.trace_id) == trace_id(FIRST)
    assert format_span_id(second.context.span_id) == span_id(then)
    assert second.parent.span_id == first.context.span_id
    assert (first.parent, first.status.status_code) == (None, StatusCode.UNSET)
    assert (second.start_time, second.end_time) == (5_000_000, 9_000_000)
    assert (second.status.status_code, second.status.description) == (StatusCode.ERROR, "refused")
    assert dict(second.attributes or {}) == {"a": 1}

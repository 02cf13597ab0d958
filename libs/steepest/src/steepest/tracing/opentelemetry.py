"""Spans to a collector of OpenTelemetry, by OTLP over HTTP. It needs the extra ``tracing``.

The SDK's own batches and retries carry them, on a thread of its own: a collector that is slow or away costs spans, and
nothing else.
"""

from __future__ import annotations

import atexit
from importlib.metadata import version

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from steepest.trace_context import span_id, trace_id
from steepest.tracing.spans import Span

EXPORT_S = 2.0
"""Of a batch with all retries: the end of a process waits for as long where its collector does not answer."""

NS_PER_MS = 1_000_000
RESOURCE = Resource({"service.name": "steepest", "service.version": version("steepest")})
SCOPE = InstrumentationScope("steepest", version("steepest"))


class SpanExport:
    """Takes spans, and sends them in batches."""

    def __init__(self, processor: SpanProcessor) -> None:
        self._processor = processor

    @classmethod
    def to(cls, endpoint: str) -> SpanExport:
        """To a collector's address, such as ``http://127.0.0.1:4318/v1/traces``; at the end of the process, what waits."""
        export = cls(BatchSpanProcessor(OTLPSpanExporter(endpoint, timeout=EXPORT_S)))
        atexit.register(export.close)
        return export

    def __call__(self, span: Span) -> None:
        """Queue a span; where too many wait, it is dropped."""
        self._processor.on_end(readable(span))

    def close(self) -> None:
        """Send what waits."""
        self._processor.shutdown()


def readable(span: Span) -> ReadableSpan:
    """A span as the SDK's exporters take it."""
    return ReadableSpan(
        name=span.name,
        context=_context(span.traceparent),
        parent=_context(span.parent) if span.parent else None,
        resource=RESOURCE,
        attributes=span.attributes,
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        start_time=span.begin_ms * NS_PER_MS,
        end_time=span.end_ms * NS_PER_MS,
        instrumentation_scope=SCOPE,
    )


def _context(traceparent: str) -> SpanContext:
    return SpanContext(
        int(trace_id(traceparent), 16),
        int(span_id(traceparent), 16),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )

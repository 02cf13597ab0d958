"""Spans arrive at a real collector of OpenTelemetry (`make collector`), with the ids that the log's headers have."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steepest.trace_context import span_id, trace_begun, trace_continued, trace_id
from steepest.tracing.opentelemetry import SpanExport
from steepest.tracing.spans import Span

PROGRAM = Path(__file__).parents[3] / ".collector" / "collector"

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason="there is no OpenTelemetry Collector: run `make collector`"
)

FIRST = trace_begun("a test")
PLAN = Span(
    name="plan migrate",
    traceparent=trace_continued(FIRST, "plan"),
    parent=FIRST,
    begin_ms=1_700_000_000_000,
    end_ms=1_700_000_001_500,
    attributes={"steepest.job": "a <b>", "steepest.offset": 7},
    error="target-full",
)


def free_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def collector(folder: Path, port: int) -> Iterator[Path]:
    """A collector that prints what it is sent; its output."""
    (folder / "collector.yml").write_text(
        f"""
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{debug: {{verbosity: detailed}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [debug]}}}}
"""
    )
    output = folder / "collector.log"
    with output.open("wb") as sink:
        process = subprocess.Popen([PROGRAM, "--config", f"file:{folder / 'collector.yml'}"], stdout=sink, stderr=sink)
    try:
        wait_for(output, "Everything is ready", process)
        yield output
    finally:
        process.terminate()
        process.wait(timeout=60)


def wait_for(output: Path, text: str, process: subprocess.Popen[bytes] | None = None) -> str:
    """The output once this is in it."""
    deadline = time.monotonic() + 60
    while text not in (said := output.read_text()):
        assert process is None or process.poll() is None, said
        assert time.monotonic() < deadline, said
        time.sleep(0.05)
    return said


def test_a_collector_gets_the_ids_of_the_log(tmp_path: Path) -> None:
    """Trace, span, parent, times, attributes and the error of a span are what was given."""
    port = free_port()
    with collector(tmp_path, port) as output:
        export = SpanExport.to(f"http://127.0.0.1:{port}/v1/traces")
        export(PLAN)
        export.close()
        said = wait_for(output, "plan migrate")

    found = dict(
        re.findall(
            r"^ *(Trace ID|Parent ID|ID|Start time|End time|Status code|Status message) *: (.*)$", said, re.MULTILINE
        )
    )
    assert found["Trace ID"] == trace_id(PLAN.traceparent)
    assert found["ID"] == span_id(PLAN.traceparent)
    assert found["Parent ID"] == span_id(PLAN.parent)
    assert found["Start time"].startswith("2023-11-14 22:13:20 ")
    assert found["End time"].startswith("2023-11-14 22:13:21.5 ")
    assert (found["Status code"], found["Status message"]) == ("Error", "target-full")
    assert "steepest.job: Str(a <b>)" in said
    assert "steepest.offset: Int(7)" in said
    assert "service.name: Str(steepest)" in said


async def test_a_collector_that_is_away_costs_spans_and_nothing_else() -> None:
    """Thousands of spans that no collector takes delay nothing, and shutting down takes a few seconds at most."""
    export = SpanExport.to(f"http://127.0.0.1:{free_port()}/v1/traces")
    for _ in range(10_000):
        export(PLAN)
    async with asyncio.timeout(60):
        await asyncio.to_thread(export.close)

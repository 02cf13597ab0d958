"""Every metric of the gateway: what it means, and what to do about it. ``docs/metrics.md`` is generated from here.

It owns the counting. It must never know what is answered.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.registry import Collector

from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.metric_defs import Metrics

ANSWER_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class GatewayMetrics:
    """The metrics of one gateway; a process's registry takes them in."""

    def __init__(self) -> None:
        self.requests = Counter(
            "steepest_gateway_requests",
            "Requests to the API that were answered. Many with a `status` of 500 and more: the gateway's log says why; 503"
            " is a log that cannot be read, or too much that is asked for at the same time.",
            ["operation", "status"],
            registry=None,
        )
        self.answer_seconds = Histogram(
            "steepest_gateway_answer_seconds",
            "Seconds from a request to its answer, streams left out. High: the pool is large, or the past is often asked"
            " for.",
            ["operation"],
            registry=None,
            buckets=ANSWER_S,
        )
        self.streams = Gauge(
            "steepest_gateway_streams",
            "Streams that are open. Near 2,000, from where on they are refused: pages that are never closed. One caller is"
            " refused before.",
            registry=None,
        )
        self.stalled = Counter(
            "steepest_gateway_streams_stalled",
            "Streams that were ended because their reader took nothing for 30 seconds. Rising: a slow network, or a client"
            " that stops reading.",
            registry=None,
        )

    def watch_streams(self, count: Callable[[], int]) -> None:
        """Show this number of streams."""
        self.streams.set_function(count)

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """Count an answer to a request."""
        self.requests.labels(operation, str(status)).inc()
        self.answer_seconds.labels(operation).observe(seconds)

    def collectors(self) -> tuple[Collector, ...]:
        """All of them."""
        return (self.requests, self.answer_seconds, self.streams, self.stalled)


class FeedWatch:
    """How far the feeds of a gateway are, for probes and metrics: as of any loop over the log."""

    def __init__(self, metrics: Metrics, health: Health) -> None:
        self._metrics = metrics
        self._health = health

    def expect(self, pool: str) -> None:
        """There is a feed."""
        self._health.expect(_loop(pool))

    def progress(self, pool: str, position: int, lag: int, records: int, *, ready: bool) -> None:
        """A feed has read this many more records, up to this offset."""
        self._metrics.records.labels(_loop(pool)).inc(records)
        self._metrics.lag.labels(_loop(pool)).set(lag)
        self._health.progress(_loop(pool), position, lag, ready=ready)

    def wait(self, pool: str) -> None:
        """A feed cannot read, and tries again."""
        self._health.wait(_loop(pool))


def _loop(pool: str) -> str:
    return f"feed:{pool}"

"""Every metric of a process: what it means, and what to do about it. ``docs/metrics.md`` is generated from here.

Both are in the metric's help text, so that people who scrape it read them as well.
"""

from __future__ import annotations

import platform
from contextlib import suppress
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from steepest.events.registry import READS, TOPICS

LATENCY_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()

        self.records = Counter(
            "steepest_records",
            "Records read and folded. Does not rise while records arrive: the loop is stuck; see its lag and its log.",
            ["loop"],
            registry=self.registry,
        )
        self.decisions = Counter(
            "steepest_decisions",
            "Events decided and appended. A sudden rise of plans: see what `steepest explain` reports.",
            ["decider", "event"],
            registry=self.registry,
        )
        self.repeated = Counter(
            "steepest_decisions_repeated",
            "Decisions that were in the log already. Normal after a restart; otherwise zero.",
            ["decider"],
            registry=self.registry,
        )
        self.dead_letters = Counter(
            "steepest_dead_letters",
            "Records that could not be read. Not zero: a writer uses what this version does not know; see"
            " `steepest dead-letters list`.",
            ["topic"],
            registry=self.registry,
        )
        for topic in TOPICS:
            self.dead_letters.labels(topic)  # a series that begins at 1 has never risen
        self.missed = Counter(
            "steepest_records_missed",
            "Records that were removed before they were read: the service was away for longer than the topic's retention,"
            " or had no snapshot. Rising: raise the retention.",
            ["loop"],
            registry=self.registry,
        )
        self.lag = Gauge(
            "steepest_lag_records",
            "Records between a loop's position and the end of its partition. Rising for minutes: the service is too slow.",
            ["loop"],
            registry=self.registry,
        )
        self.gaps = Gauge(
            "steepest_decision_gaps",
            "Decisions whose predecessor is missing in the log. Not zero: records were lost; compare with a recording.",
            ["loop"],
            registry=self.registry,
        )
        self.restarts = Counter(
            "steepest_loop_restarts",
            "Restarts of a loop after a failure of the log. Rising: the log (disk, broker) is in trouble.",
            ["loop"],
            registry=self.registry,
        )
        self.batch_seconds = Histogram(
            "steepest_batch_seconds",
            "Seconds from a batch's first record read to its last output appended. High: see the log's append time first.",
            ["loop"],
            registry=self.registry,
        )
        self.latency_seconds = Histogram(
            "steepest_decision_latency_seconds",
            "Seconds from the time of a batch's first record until all that was decided because of the batch is in the log."
            " High compared with `steepest_batch_seconds`: the record waited, so see `steepest_lag_records`; or the clocks"
            " of two machines differ.",
            ["loop"],
            registry=self.registry,
            buckets=LATENCY_S,
        )
        self.snapshots = Counter(
            "steepest_snapshots",
            "Snapshots kept. Does not rise for hours while records are read: a restart will take long; see the log.",
            ["loop"],
            registry=self.registry,
        )
        self.build = Info(
            "steepest_build",
            "1; the labels are the release, the event version that it knows, and its Python.",
            registry=self.registry,
        )
        self.build.info({"version": version("steepest"), "reads": str(READS), "python": platform.python_version()})
        self.reports = Counter(
            "steepest_reports",
            "Events that effectors appended. `StepFailed` rising: `steepest events --type StepFailed` shows why.",
            ["event"],
            registry=self.registry,
        )

    def forget_loop(self, loop: str) -> None:
        """Show no lag of a loop that another process runs now: the last value here would look like a stuck loop."""
        for gauge in (self.lag, self.gaps):
            with suppress(KeyError):
                gauge.remove(loop)

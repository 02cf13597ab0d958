"""Every metric of a process: what it means, and what to do about it. ``docs/metrics.md`` is generated from here.

Both stand in the metric's help text, so that people who scrape it read them as well.
"""

from __future__ import annotations

from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


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
        self.void_plans = Counter(
            "steepest_plans_void",
            "Plans that were void where they stand in the log, by the code of the refusal; every service of a pool counts"
            " them all. Some are normal, for deciders decide at the same time. Rising steadily with one code: `steepest"
            " explain` names the jobs and says why.",
            ["event", "refusal"],
            registry=self.registry,
        )
        self.reports = Counter(
            "steepest_reports",
            "Events that effectors appended. `StepFailed` rising: `steepest events --type StepFailed` shows why.",
            ["event"],
            registry=self.registry,
        )

    def forget_loop(self, loop: str) -> None:
        """Show no lag of a loop that another process runs now: what this one said last would look like one that is stuck."""
        for gauge in (self.lag, self.gaps):
            with suppress(KeyError):
                gauge.remove(loop)

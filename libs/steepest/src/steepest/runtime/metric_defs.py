"""Every metric, what it means, and what to do about it. The docs include this file as it stands."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """The metrics of one process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()

        # Records folded, by loop. Stops rising while records arrive: the loop is stuck; see its lag and its log.
        self.records = Counter("steepest_records", "Records read and folded.", ["loop"], registry=self.registry)
        # Events that deciders made and appended, by decider and type. A sudden rise of plans: look at what `explain` says.
        self.decisions = Counter(
            "steepest_decisions", "Events decided and appended.", ["decider", "event"], registry=self.registry
        )
        # Decisions made again after a restart and found in the log already. Normal after a restart, else zero.
        self.repeated = Counter(
            "steepest_decisions_repeated",
            "Decisions that were in the log already.",
            ["decider"],
            registry=self.registry,
        )
        # Records that nobody could read. Not zero: somebody writes what this version does not know; look at `dead-letters`.
        self.dead_letters = Counter(
            "steepest_dead_letters", "Records that could not be read.", ["topic"], registry=self.registry
        )
        # Records that were removed before they were read: the service was away for longer than the topic's retention, or had
        # no snapshot. Rising: raise the retention.
        self.missed = Counter(
            "steepest_records_missed",
            "Records that were removed before they were read.",
            ["loop"],
            registry=self.registry,
        )
        # Records between a loop's position and the end of its partition. Rising for minutes: the service is too slow.
        self.lag = Gauge("steepest_lag_records", "Records not read yet.", ["loop"], registry=self.registry)
        # Decisions whose predecessor is missing in the log. Not zero: records were lost; compare with a recording.
        self.gaps = Gauge("steepest_decision_gaps", "Decisions missing in the log.", ["loop"], registry=self.registry)
        # Times a loop began anew because the log did not take or give. Rising: the log (disk, broker) is in trouble.
        self.restarts = Counter(
            "steepest_loop_restarts", "Loops begun anew after a failure of the log.", ["loop"], registry=self.registry
        )
        # Seconds from a batch's first record read to its last output appended. High: look at the log's append time first.
        self.batch_seconds = Histogram(
            "steepest_batch_seconds", "Time to fold a batch and append what it made.", ["loop"], registry=self.registry
        )
        # Events that effectors reported, by type. `StepFailed` rising: `steepest events --type StepFailed` says why.
        self.reports = Counter("steepest_reports", "Events that effectors appended.", ["event"], registry=self.registry)

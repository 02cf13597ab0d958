"""The worker-monitor: turns heartbeats into facts and epochs, notices silent nodes and jobs, writes the clock, has metrics.

Reads: ``heartbeats``, ``cluster``
Writes: ``cluster``: ``Tick``, ``NodeJoined``, ``NodeLost``, ``NodeUsage``, ``ReplicaStarted``,
    ``CheckpointModeDeclared``, ``CheckpointVerified``, ``ReplicaStopped``, ``EpochMeasured``, ``FindingOpened``,
    ``FindingEnded``, ``TargetNotified``, ``ReactionPlanned``
Scales by: a pool
"""

from __future__ import annotations

from steepest.app.context import ServiceContext
from steepest.app.optional_effectors import notifiers, trace_effectors
from steepest.app.service_main import run_service
from steepest.policies.monitor.facts import Facts
from steepest.policies.monitor.silence import Silence
from steepest.policies.pickyman.profiler import Profiler
from steepest.policies.watch.watcher import Watcher
from steepest.pool_metrics.counters import PoolCounters
from steepest.pool_metrics.effector import PoolMetrics
from steepest.pool_metrics.gauges import PoolGauges
from steepest.runtime.service import Service
from steepest.runtime.ticker import Ticker


def build(context: ServiceContext) -> Service:
    """The service's parts."""
    registry = context.metrics.registry
    counters, gauges = PoolCounters(registry), PoolGauges(registry, context.settings.metrics.jobs)
    traces = trace_effectors(context.settings.tracing.endpoint)
    notify = notifiers(
        context.settings.notify,
        context.clock,
        lambda pool, target, outcome, more: counters.notifications.labels(pool, target, outcome).inc(more),
    )
    return Service(
        name="worker-monitor",
        cluster_deciders=(Silence, Watcher),
        stream_deciders=(Facts, Profiler),
        effectors=lambda held: (
            Ticker(context.clock),
            PoolMetrics(counters, gauges, held.pool),
            *notify(held),
            *traces(held),
        ),
    )


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)


if __name__ == "__main__":
    main()

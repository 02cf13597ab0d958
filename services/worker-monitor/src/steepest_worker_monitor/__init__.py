"""The worker-monitor: turns heartbeats into facts, notices silence, and writes the pool's clock."""

from __future__ import annotations

from steepest.app.service_main import run_alone
from steepest.clock import Clock
from steepest.cluster.port import Cluster
from steepest.log.base import Log
from steepest.policies.monitor.facts import Facts
from steepest.policies.monitor.silence import Silence
from steepest.runtime.service import Service, Settings
from steepest.runtime.ticker import Ticker


def build(settings: Settings, log: Log, cluster: Cluster, clock: Clock) -> Service:  # noqa: ARG001 - every service's form
    """The service's parts."""
    return Service(
        name="worker-monitor",
        cluster_deciders=(Silence,),
        stream_deciders=(Facts,),
        effectors=(Ticker(clock),),
    )


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_alone(build)

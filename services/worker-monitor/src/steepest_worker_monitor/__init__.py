"""The worker-monitor: turns heartbeats into facts, notices silence, and writes the pool's clock."""

from __future__ import annotations

from steepest.app.context import ServiceContext
from steepest.app.service_main import run_service
from steepest.policies.monitor.facts import Facts
from steepest.policies.monitor.silence import Silence
from steepest.runtime.service import Service
from steepest.runtime.ticker import Ticker


def build(context: ServiceContext) -> Service:
    """The service's parts."""
    return Service(
        name="worker-monitor",
        cluster_deciders=(Silence,),
        stream_deciders=(Facts,),
        effectors=lambda _: (Ticker(context.clock),),
    )


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)

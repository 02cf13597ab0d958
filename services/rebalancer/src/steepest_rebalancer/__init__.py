"""The rebalancer: SpeCon's Algorithm 5, converged jobs to idle nodes."""

from __future__ import annotations

from steepest.app.service_main import run_alone
from steepest.clock import Clock
from steepest.cluster.port import Cluster
from steepest.log.base import Log
from steepest.policies.specon.rebalancer import Rebalancer
from steepest.runtime.service import Service, Settings


def build(settings: Settings, log: Log, cluster: Cluster, clock: Clock) -> Service:  # noqa: ARG001 - every service's form
    """The service's parts."""
    return Service(name="rebalancer", cluster_deciders=(Rebalancer,))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_alone(build)

"""The limit-planner: FlowCon's Algorithms 1 and 2, which CPU limits the jobs of each node are to have."""

from __future__ import annotations

from steepest.app.service_main import run_alone
from steepest.clock import Clock
from steepest.cluster.port import Cluster
from steepest.log.base import Log
from steepest.policies.flowcon.limit_planner import LimitPlanner
from steepest.runtime.service import Service, Settings


def build(settings: Settings, log: Log, cluster: Cluster, clock: Clock) -> Service:  # noqa: ARG001 - every service's form
    """The service's parts."""
    return Service(name="limit-planner", cluster_deciders=(LimitPlanner,))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_alone(build)

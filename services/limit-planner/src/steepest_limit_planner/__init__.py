"""The limit-planner: FlowCon's Algorithms 1 and 2, which CPU limits the jobs of each node are to have."""

from __future__ import annotations

from steepest.app.context import ServiceContext
from steepest.app.service_main import run_service
from steepest.policies.flowcon.limit_planner import LimitPlanner
from steepest.runtime.service import Service


def build(_: ServiceContext) -> Service:
    """The service's parts."""
    return Service(name="limit-planner", cluster_deciders=(LimitPlanner,))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)

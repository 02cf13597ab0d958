"""The limit-planner: CPU limits, by FlowCon or by the policy ``steepest``, which also moves jobs and divides GPUs.

Reads: ``cluster``
Writes: ``cluster``: ``LimitsPlanned``, ``MigrationPlanned``, ``TransitionPlanned``, ``PlacementPlanned``,
    ``PromiseRevised``, ``JobRejected``
Scales by: a pool
"""

from __future__ import annotations

from steepest.app.context import ServiceContext
from steepest.app.service_main import run_service
from steepest.policies.flowcon.limit_planner import LimitPlanner
from steepest.policies.steepest.devices.device_planner import DevicePlanner
from steepest.policies.steepest.steepest_planner import SteepestPlanner
from steepest.runtime.service import Service


def build(_: ServiceContext) -> Service:
    """The service's parts."""
    return Service(name="limit-planner", cluster_deciders=(LimitPlanner, SteepestPlanner, DevicePlanner))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)


if __name__ == "__main__":
    main()

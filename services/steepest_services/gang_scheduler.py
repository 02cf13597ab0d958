"""The gang-scheduler: DRAGON's placement and scaling of gangs.

Reads: ``cluster``
Writes: ``cluster``: ``PlacementPlanned``, ``TransitionPlanned``, ``JobRejected``
Scales by: a pool
"""

from __future__ import annotations

from steepest.app.context import ServiceContext
from steepest.app.service_main import run_service
from steepest.policies.dragon.gang_scheduler import GangScheduler
from steepest.runtime.service import Service


def build(_: ServiceContext) -> Service:
    """The service's parts."""
    return Service(name="gang-scheduler", cluster_deciders=(GangScheduler,))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)


if __name__ == "__main__":
    main()

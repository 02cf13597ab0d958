"""The rebalancer: SpeCon's Algorithm 5, converged jobs to idle nodes.

Reads: ``cluster``
Writes: ``cluster``: ``MigrationPlanned``
Scales by: a pool
"""

from __future__ import annotations

from steepest.app.context import ServiceContext
from steepest.app.service_main import run_service
from steepest.policies.specon.rebalancer import Rebalancer
from steepest.runtime.service import Service


def build(_: ServiceContext) -> Service:
    """The service's parts."""
    return Service(name="rebalancer", cluster_deciders=(Rebalancer,))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)


if __name__ == "__main__":
    main()

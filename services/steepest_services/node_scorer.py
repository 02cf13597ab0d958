"""The node-scorer: SpeCon's Algorithm 4, where a converged job goes or that it stays.

Reads: ``cluster``
Writes: ``cluster``: ``MigrationPlanned``, ``StayDecided``
Scales by: a pool
"""

from __future__ import annotations

from steepest.app.context import ServiceContext
from steepest.app.service_main import run_service
from steepest.policies.specon.node_scorer import NodeScorer
from steepest.runtime.service import Service


def build(_: ServiceContext) -> Service:
    """The service's parts."""
    return Service(name="node-scorer", cluster_deciders=(NodeScorer,))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)


if __name__ == "__main__":
    main()

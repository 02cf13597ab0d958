"""The migrator: carries out placements, migrations and cancels on the cluster, and submits what users have made there.

Reads: ``cluster``
Writes: ``cluster``: ``StepBegun``, ``StepFailed``, ``CheckpointSaved``, ``JobStopped``, ``SurplusStopped``,
    ``JobPlaced``, ``JobResumed``, ``MigrationFinished``, ``MigrationFailed``, ``PlanAbandoned``
Scales by: a pool
"""

from __future__ import annotations

from collections.abc import Sequence

from steepest.app.context import ServiceContext
from steepest.app.service_main import run_service
from steepest.runtime.effector import Effector
from steepest.runtime.service import HeldPool, Service
from steepest.sagas.migrator import Migrator


def build(context: ServiceContext) -> Service:
    """The service's parts."""

    def effectors(held: HeldPool) -> Sequence[Effector]:
        return Migrator(context.cluster_of(held), context.clock), *context.kubernetes_effectors_of(held)

    return Service(name="migrator", effectors=effectors)


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)


if __name__ == "__main__":
    main()

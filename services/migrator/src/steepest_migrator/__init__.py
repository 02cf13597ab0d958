"""The migrator: carries out placements, migrations and cancels on the cluster."""

from __future__ import annotations

from steepest.app.context import ServiceContext
from steepest.app.service_main import run_service
from steepest.runtime.service import Service
from steepest.sagas.migrator import Migrator


def build(context: ServiceContext) -> Service:
    """The service's parts."""
    return Service(name="migrator", effectors=lambda held: (Migrator(context.cluster_of(held), context.clock),))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)

"""The resizer: gives running jobs the CPU limits that are planned for them."""

from __future__ import annotations

from steepest.app.service_main import run_alone
from steepest.clock import Clock
from steepest.cluster.port import Cluster
from steepest.log.base import Log
from steepest.runtime.service import Service, Settings
from steepest.sagas.resizer import Resizer


def build(settings: Settings, log: Log, cluster: Cluster, clock: Clock) -> Service:  # noqa: ARG001 - every service's form
    """The service's parts."""
    return Service(name="resizer", effectors=(Resizer(cluster),))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_alone(build)

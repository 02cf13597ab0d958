"""The placer: admission, first placement, retries, and the end of every job."""

from __future__ import annotations

from steepest.app.service_main import run_alone
from steepest.clock import Clock
from steepest.cluster.port import Cluster
from steepest.log.base import Log
from steepest.policies.placement.placer import Placer
from steepest.runtime.service import Service, Settings


def build(settings: Settings, log: Log, cluster: Cluster, clock: Clock) -> Service:  # noqa: ARG001 - every service's form
    """The service's parts."""
    return Service(name="placer", cluster_deciders=(Placer,))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_alone(build)

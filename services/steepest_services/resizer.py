"""The resizer: gives running jobs the CPU limits that are planned for them.

Reads: ``cluster``
Writes: ``cluster``: ``LimitsApplied``, ``LimitsRefused``
Scales by: a pool
"""

from __future__ import annotations

from steepest.app.context import ServiceContext
from steepest.app.service_main import run_service
from steepest.runtime.service import Service
from steepest.sagas.resizer import Resizer


def build(context: ServiceContext) -> Service:
    """The service's parts."""
    return Service(name="resizer", effectors=lambda held: (Resizer(context.cluster_of(held)),))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)


if __name__ == "__main__":
    main()

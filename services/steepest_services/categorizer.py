"""The categorizer: SpeCon's Algorithm 3 over the losses of every job.

Reads: ``loss``
Writes: ``cluster``: ``GrowthMeasured``, ``CategoryChanged``, ``ReallocationRequested``
Scales by: a partition of ``loss``
"""

from __future__ import annotations

from steepest.app.context import ServiceContext
from steepest.app.service_main import run_service
from steepest.policies.specon.categorizer import Categorizer
from steepest.runtime.service import Service


def build(_: ServiceContext) -> Service:
    """The service's parts."""
    return Service(name="categorizer", stream_deciders=(Categorizer,))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)


if __name__ == "__main__":
    main()

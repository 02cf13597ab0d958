"""Runs a service as the release after would: ``python -m tests.harness.release_after SERVICE``.

It knows a flag and a version of events that this one does not know, and its view has another form.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from steepest.app.installed_services import installed_services
from steepest.app.service_main import run_service
from steepest.events.cluster import PoolConfigured
from steepest.events.registry import FLAGS, READS, Flag
from steepest.runtime.recovery import loop_snapshots
from steepest.view import cluster_view

FLAG = 4_711
AFTER: Mapping[str, Any] = {"READS": READS + 1, "FLAGS": {**FLAGS, FLAG: Flag("A test says so.", since=READS + 1)}}
"""What the release after knows, by name in :mod:`steepest.events.registry`."""

UPGRADED = PoolConfigured(reads=READS + 1, flags=(*FLAGS, FLAG))
"""A pool that was upgraded to the release after."""


def main() -> None:
    """Learn what is new, and run the service until SIGTERM."""
    (service,) = sys.argv[1:]
    vars(cluster_view).update(AFTER)
    loop_snapshots.VERSION = (*loop_snapshots.VERSION[:-1], loop_snapshots.VERSION[-1] + 1)
    build = installed_services()[service]
    sys.argv = [service]
    run_service(build)


if __name__ == "__main__":
    main()

"""Runs a service as the release before would: ``python -m tests.harness.release_before SERVICE``.

It knows no event and no version of events that came since, and its view has another form.
"""

from __future__ import annotations

import sys

import msgspec

from steepest.app.installed_services import installed_services
from steepest.app.service_main import run_service
from steepest.events.registry import CLUSTER, READS, SINCE, TOPICS
from steepest.runtime import decode
from steepest.runtime.recovery import loop_snapshots
from steepest.view import cluster_view

BEFORE = READS - 1


def main() -> None:
    """Forget what is new, and run the service until SIGTERM."""
    (service,) = sys.argv[1:]
    known = [kind for kind in CLUSTER.types if SINCE.get(kind, 1) <= BEFORE]
    union = known[0]
    for kind in known[1:]:
        union = union | kind  # type: ignore[assignment]
    TOPICS["cluster"] = msgspec.structs.replace(CLUSTER, events=union)  # type: ignore[index]
    decode.KNOWN = {kind.__name__ for kind in known}
    vars(cluster_view)["READS"] = BEFORE
    loop_snapshots.VERSION = (*loop_snapshots.VERSION[:-1], loop_snapshots.VERSION[-1] - 1)
    build = installed_services()[service]
    sys.argv = [service]
    run_service(build)


if __name__ == "__main__":
    main()

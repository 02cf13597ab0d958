"""A start without a snapshot over a long log: seconds, memory, and the longest silence, which ``/healthz`` bounds.

The pool has 20 nodes whose use is reported, with a tick before each report, and a placer reads it.
The full size takes 4 GB in ``$TMPDIR``.
"""

import asyncio
import resource
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from benchmarks.frame.bench import doing, each, figure, options

from steepest.clock import SystemClock
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.log.files.file_log import FileLog
from steepest.log.snapshot_store import FolderSnapshots
from steepest.policies.placement.placer import Placer
from steepest.runtime.decode import new_record
from steepest.runtime.layout import Layout
from steepest.runtime.monitoring.health import STUCK_AFTER_S
from steepest.runtime.recovery.log_identity import open_partitions
from steepest.runtime.runtime import Runtime
from steepest.runtime.service import Service

CLOCK, LAYOUT, NODES, BATCH = SystemClock(), Layout(), [f"n{number}" for number in range(20)], 10_000


async def measure(folder: Path, count: int) -> None:
    """Print the figures."""
    log, at = FileLog(folder / "log", LAYOUT.partitions()), LAYOUT.of_pool("default")
    await open_partitions(log, LAYOUT, CLOCK)
    await log.append(
        [new_record(at, "", c.NodeJoined(node=node, capacity=Resources(cpu_m=8_000)), 0) for node in NODES]
    )
    used = [c.NodeUsage(node=node, used=Resources(cpu_m=4_000), jobs={"a-job": 400}) for node in NODES]
    for first in each(f"appending {count} records, in batches", range(0, count, BATCH)):
        events = [(n, used[n // 2 % 20] if n % 2 else c.Tick(counted_ms=500 * n)) for n in range(first, first + BATCH)]
        await log.append([new_record(at, "", event, 500 * n) for n, event in events])
    await log.close()
    doing("starting the placer")
    log, spoken_at, stop = FileLog.open(folder / "log"), [time.monotonic()], asyncio.Event()
    placer, snapshots = Service(name="placer", cluster_deciders=(Placer,)), FolderSnapshots(folder / "snapshots")
    runtime = Runtime([placer], log=log, layout=LAYOUT, snapshots=snapshots, clock=CLOCK)
    progress = runtime.health.progress

    def hear(loop: str, position: int, lag: int, *, ready: bool) -> None:
        spoken_at.append(time.monotonic())
        progress(loop, position, lag, ready=ready)
        if runtime.health.is_ready():
            stop.set()

    runtime.health.progress = hear  # type: ignore[method-assign]
    await runtime.run(stop)
    silence_s = max(after - before for before, after in pairwise(spoken_at))
    figure(
        f"{count} records",
        seconds=round(spoken_at[-1] - spoken_at[0], 1),
        silent_s=round(silence_s, 2),
        stuck_after_s=STUCK_AFTER_S,
        mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
    )


if __name__ == "__main__":
    records = options(__doc__, records=(20_000, 1_000_000, 20_000_000)).records
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(measure(Path(made), records))

"""State after a year: sizes of snapshots and logs of a pool that runs 1,000 jobs a day, after months 1, 6 and 12.

The real deciders run it in virtual time (``steepest.testing.system.year``). One job in twenty is never said to have
ended, 20 spot machines a day come under names of their own and never return, and all restarts from its snapshots every
month. What a snapshot holds must be as large after a year as after a month, within a tenth; and so must what jobs leave in
the state folder's ``ended/``, where the adapters' own retention removes it every day.

Heartbeats and ticks come every 45 minutes here. What they add to a log at their real pace is said by itself, and what is
bounded by their number has a bound that is as much lower.

Run: ``python benchmarks/year.py [--days 360] [--jobs 1000] [--json]``; a year takes some minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from steepest.cluster.folders import ended_jobs
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.registry import encode
from steepest.policies.monitor import facts
from steepest.policies.monitor.use import USAGE_EVERY_MS
from steepest.testing.system.year import STEPS_A_DAY, PoolLife

MONTH = 30
SHOWN = (1, 6, 12)
DAY_MS = 86_400_000
DAY_S = 86_400
LEFT_BYTES = 4_096
"""Of the output, and of the checkpoint, of each job that has ended."""

NODES = 20
SPOTS_A_DAY = 20
MAY_GROW = 1.1
RETAINED_DAYS = {"cluster": 30, "loss": 30, "heartbeats": 7}
"""On Kafka: ``cluster`` where it is trimmed by ``steepest topics trim --keep 30d``."""


class Ended:
    """The folder in which jobs leave what they printed and saved."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def day(self, day: int, jobs: int) -> None:
        """So many jobs end in the course of a day, and at its end what is beyond the bounds is removed."""
        for number in range(jobs):
            job = self._folder / f"job-{day}-{number}.1"
            (job / "checkpoints").mkdir(parents=True)
            (job / "output.log").write_bytes(bytes(LEFT_BYTES))
            (job / "checkpoints" / "step-1").write_bytes(bytes(LEFT_BYTES))
            at_s = (day + number / jobs) * DAY_S
            os.utime(job, (at_s, at_s))
        clock = SimpleNamespace(time=lambda: float((day + 1) * DAY_S))
        with mock.patch.object(ended_jobs, "time", clock):
            ended_jobs.sweep(self._folder, ended_jobs.Retention())

    def sizes(self) -> dict[str, int]:
        """How many jobs have left something, and the bytes of that."""
        files = [path for path in self._folder.rglob("*") if path.is_file()]
        return {"jobs": sum(1 for _ in self._folder.iterdir()), "bytes": sum(path.stat().st_size for path in files)}


def live(days: int, jobs: int, ended: Ended) -> list[dict[str, Any]]:
    """The sizes after each month that is shown."""
    facts.BEATS_KEPT = facts.BEATS_KEPT * STEPS_A_DAY // (DAY_MS // USAGE_EVERY_MS)
    life, found = PoolLife(jobs, nodes=NODES, spots_a_day=SPOTS_A_DAY), []
    began = time.perf_counter()
    for day in range(MONTH, days + 1, MONTH):
        life.days(MONTH)
        for one in range(day - MONTH, day):
            ended.day(one, jobs)
        life.restart()
        if day // MONTH in SHOWN:
            sizes = life.sizes()
            found.append(
                {
                    "month": day // MONTH,
                    "jobs": len(life.view.jobs),
                    "nodes": sum(1 for _ in life.view.nodes),
                    "snapshots": sizes,
                    "all_snapshots": sum(sizes.values()),
                    "ended": ended.sizes(),
                    "log_a_day": {topic: log.bytes // day for topic, log in life.logs.items()},
                    "log_written": sum(log.bytes for log in life.logs.values()),
                    "log_retained": sum(
                        log.bytes // day * min(day, RETAINED_DAYS[topic]) for topic, log in life.logs.items()
                    ),
                    "seconds": round(time.perf_counter() - began, 1),
                }
            )
    return found


def usage_a_day(every_ms: int) -> int:
    """Bytes that a node's use adds to ``cluster`` in a day."""
    used = c.NodeUsage(node="node-1", used=Resources(cpu_m=4_000), jobs={f"job-{n}": 400 for n in range(10)})
    return len(encode(used)) * DAY_MS // every_ms


def main() -> int:
    """Print the figures; the exit status says whether they are within their bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=12 * MONTH)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        months = live(arguments.days, arguments.jobs, Ended(Path(folder)))
    first, last = months[0], months[-1]
    grown = {
        "view": last["snapshots"]["view"] / first["snapshots"]["view"],
        "all": last["all_snapshots"] / first["all_snapshots"],
        "ended": last["ended"]["bytes"] / first["ended"]["bytes"],
    }
    usage = {"before": usage_a_day(USAGE_EVERY_MS), "now": usage_a_day(5_000)}
    is_bounded = max(grown.values()) <= MAY_GROW
    if arguments.json:
        print(json.dumps({"python": platform.python_version(), "months": months, "grown": grown, "usage": usage}))
        return not is_bounded
    for month in months:
        a_day = ", ".join(f"{topic} {mb(size)}" for topic, size in month["log_a_day"].items())
        print(
            f"month {month['month']:2} ({month['seconds']} s): {month['jobs']} jobs and {month['nodes']} nodes in the view; "
            f"snapshots {mb(month['all_snapshots'])}"
        )
        print("          " + ", ".join(f"{name} {mb(size)}" for name, size in month["snapshots"].items()))
        print(f"          ended/: {month['ended']['jobs']} jobs, {mb(month['ended']['bytes'])}")
        print(f"          log a day: {a_day}; retained {mb(month['log_retained'])}, all {mb(month['log_written'])}")
    print(f"use of a node in `cluster` a day: {mb(usage['now'])}, and twice a second it would be {mb(usage['before'])}")
    print(
        f"from month {first['month']} to {last['month']}: view × {grown['view']:.2f}, all snapshots × {grown['all']:.2f}, "
        f"ended/ × {grown['ended']:.2f}; "
        f"at most {MAY_GROW}: {'yes' if is_bounded else 'NO'}"
    )
    return not is_bounded


def mb(size: float) -> str:
    """A number of bytes as text in MB."""
    return f"{size / 1e6:.2f} MB"


if __name__ == "__main__":
    sys.exit(main())

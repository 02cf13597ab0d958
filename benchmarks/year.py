"""State after a year: sizes of snapshots and logs of a pool that runs 1,000 jobs a day, after months 1, 2, 6 and 12.

The real deciders run it in virtual time (``tests.harness.system.year``). One job in twenty is never said to have
ended, 20 spot machines a day come under names of their own and never return, and all restarts from its snapshots every
month. What a snapshot holds must be as large after a year as after a month, within a tenth; and so must what jobs leave in
the state folder's ``ended/``, where the adapters' own retention removes it every day.

Heartbeats and ticks come every 45 minutes here. What they add to a log at their real pace is said by itself, and what is
bounded by their number has a bound that is as much lower.
The default size lives for two months.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from benchmarks.frame.bench import each, figure, options
from tests.harness.system.year import STEPS_A_DAY, PoolLife

from steepest.cluster.folders import ended_jobs
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.registry import encode
from steepest.policies.monitor import facts
from steepest.policies.monitor.use import USAGE_EVERY_MS

MONTH = 30
SHOWN = (1, 2, 6, 12)
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


def live(days: int, jobs: int, ended: Ended) -> list[dict[str, int]]:
    """The bytes after each month that is shown, of what must not grow."""
    facts.BEATS_KEPT = facts.BEATS_KEPT * STEPS_A_DAY // (DAY_MS // USAGE_EVERY_MS)
    life, found = PoolLife(jobs, nodes=NODES, spots_a_day=SPOTS_A_DAY), []
    for day in each("days", range(1, days + 1)):
        life.days(1)
        ended.day(day - 1, jobs)
        if day % MONTH:
            continue
        life.restart()
        if (month := day // MONTH) in SHOWN:
            sizes, left = life.sizes(), ended.sizes()
            found.append({"view": sizes["view"], "all_snapshots": sum(sizes.values()), "ended": left["bytes"]})
            a_day = {topic: log.bytes // day for topic, log in life.logs.items()}
            retained = sum(size * min(day, RETAINED_DAYS[topic]) for topic, size in a_day.items())
            in_view = {"jobs": len(life.view.jobs), "nodes": sum(1 for _ in life.view.nodes)}
            figure(f"month {month}", **in_view, **{f"{name}_mb": mb(size) for name, size in sizes.items()})
            figure(f"month {month}, ended/", jobs=left["jobs"], mb=mb(left["bytes"]))
            written = mb(sum(log.bytes for log in life.logs.values()))
            sizes_a_day = {f"{topic}_mb_a_day": mb(size) for topic, size in a_day.items()}
            figure(f"month {month}, logs", **sizes_a_day, retained_mb=mb(retained), written_mb=written)
    return found


def usage_a_day(every_ms: int) -> int:
    """Bytes that a node's use adds to ``cluster`` in a day."""
    used = c.NodeUsage(node="node-1", used=Resources(cpu_m=4_000), jobs={f"job-{n}": 400 for n in range(10)})
    return len(encode(used)) * DAY_MS // every_ms


def main() -> None:
    """Measure, and say what has grown from the first month to the last."""
    asked = options(__doc__, days=(MONTH, 2 * MONTH, 12 * MONTH), jobs=(2, 500, 1_000))
    with tempfile.TemporaryDirectory() as folder:
        months = live(asked.days, asked.jobs, Ended(Path(folder)))
    figure("use of a node a day", mb=mb(usage_a_day(5_000)), twice_a_second_mb=mb(usage_a_day(USAGE_EVERY_MS)))
    grown = {name: round(size / months[0][name], 2) for name, size in months[-1].items()}
    figure("grown", **grown, at_most=MAY_GROW)


def mb(size: float) -> float:
    """Bytes in MB."""
    return round(size / 1e6, 2)


if __name__ == "__main__":
    main()

"""Cost of a chain of services on Kafka: latency from a report's append to the plan's, and memory after an hour of events.

* *latency*: 2,000 reports a second of jobs that have converged; a categorizer asks for another place for each of them, a
  node-scorer answers with a plan, and the rebalancer and the placer read along. From a report's append to the append of the
  plan that followed from it, beside bare produce → consume of the same reports.
* *memory*: the resident set of each service after an hour's events of 100 jobs that report every 3 s.

It starts its own broker (``make kafka``), and shares the cores with it.

Run: ``python benchmarks/kafka_plans.py [--rate 2000] [--seconds 20] [--json]``
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from kafka import CLUSTER, GROWTH, HOME, WARM_UP_S, Bench, spread  # type: ignore[import-not-found]  # beside this
from steepest.events import cluster as c
from steepest.events.loss import JobWatched, LossReported
from steepest.events.parameters import SpeConParameters
from steepest.events.received import ID, SEQUENCE, SOURCE, DecisionId
from steepest.log.base import Log, NewRecord, Record, TopicPartition
from steepest.log.kafka.broker import running_broker
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.runtime.decode import new_record
from steepest.testing.scenarios.folded_pool import joined, placement, submitted

SERVICES = ("categorizer", "node-scorer", "rebalancer", "placer")
NODES = 10
ACTIVE = 200
"""Jobs that report at a time, in turn."""

AN_INTERVAL, REPORTS = 10, 60
"""Reports of a job, all of the same value: the fifth interval asks for another place."""

HOUR_S, HOUR_JOBS, HOUR_EVERY_S = 3_600, 100, 3


def beginning(bench: Bench, jobs: Sequence[str], interval_ms: int) -> Iterator[NewRecord]:
    """Nodes, and jobs that run on them and are watched."""
    for number in range(NODES):
        yield new_record(CLUSTER, "default", joined(f"n{number}", 1_000_000), 1)
    for number, job in enumerate(jobs):
        node, plan = f"n{number % NODES}", f"place-{job}"
        begun = {"plan": plan, "attempt": 1, "job": job, "incarnation": 1, "node": node}
        for event in (
            submitted(job),
            placement(job, node, plan=plan),
            c.StepBegun(step=c.Step.START, **begun),  # type: ignore[arg-type]
            c.JobPlaced(**begun),  # type: ignore[arg-type]
        ):
            yield new_record(CLUSTER, "default", event, 1)
        parameters = SpeConParameters(interval_ms=interval_ms)
        watched = JobWatched(job=job, pool="default", incarnation=1, metric="loss", parameters=parameters)
        yield new_record(bench.layout.of_key("loss", job), job, watched, 1, {SOURCE: job, SEQUENCE: "0"})


def report(bench: Bench, job: str, number: int, at_ms: int) -> NewRecord:
    """One report of a job that does not learn any more."""
    event = LossReported(job=job, incarnation=1, step=number, value=1.0)
    headers = {SOURCE: job, SEQUENCE: str(number + 1)}
    return new_record(bench.layout.of_key("loss", job), job, event, at_ms, headers)


class Clocks:
    """When each report was appended, and when the report and its plan arrived."""

    def __init__(self) -> None:
        self.sent: dict[tuple[int, int], float] = {}
        self.direct: list[float] = []
        self.planned: list[float] = []
        self.works = asyncio.Event()
        self._asked: dict[int, float] = {}

    def hear(self, record: Record) -> None:
        """Take in a record of either topic."""
        now = time.perf_counter()
        if record.at.topic == "loss":
            if (sent := self.sent.get((record.at.partition, record.offset))) is not None:
                self.direct.append(now - sent)
            return
        cause = DecisionId.parse(record.headers.get(ID, ""))
        if cause is None:
            return
        if cause.topic == "loss" and (cause.partition, cause.offset) in self.sent:
            self._asked[record.offset] = self.sent[cause.partition, cause.offset]
        elif cause.decider == "node-scorer":
            self.works.set()
            if cause.offset in self._asked:
                self.planned.append(now - self._asked[cause.offset])


async def latency(folder: Path, bootstrap: str, rate: int, seconds: int) -> dict[str, Any]:
    """Steady reports, and the times of the plans that they cause; all times by the same clock."""
    bench = Bench(folder, bootstrap, "plans")
    log, reading = await bench.open(), await bench.open()
    interval_ms = AN_INTERVAL * 1000 * ACTIVE // rate
    # Enough for the time that the services take to begin, too.
    jobs = [f"job-{number}" for number in range(2 * ACTIVE + (seconds + 60) * rate // REPORTS)]
    await append(log, beginning(bench, jobs, interval_ms))
    processes = [bench.service(name) for name in SERVICES]
    clocks, stop = Clocks(), asyncio.Event()

    async def follow(at: Sequence[TopicPartition]) -> None:
        reader = reading.reader({each: await reading.end(each) for each in at})
        while not stop.is_set():
            for record in await reader.poll(timeout_s=0.5):
                clocks.hear(record)
        await reader.close()

    following = [asyncio.create_task(follow(at)) for at in (bench.layout.of_topic("loss"), [CLUSTER])]
    measured_from, began, batch, number = float("inf"), time.perf_counter(), max(1, rate // 200), 0
    while (now := time.perf_counter()) - measured_from < seconds and now - began < seconds + 60:
        if clocks.works.is_set() and measured_from == float("inf"):
            measured_from = now + WARM_UP_S
        await asyncio.sleep(max(0, began + number / rate - now))
        records = [turn(bench, jobs, number + each) for each in range(batch)]
        appended = time.perf_counter()
        for record, offset in zip(records, await log.append(records), strict=True):
            if appended > measured_from:
                clocks.sent[record.to.partition, offset] = appended
        number += batch
    await asyncio.sleep(1)
    stop.set()
    await asyncio.gather(*following)
    end(processes)
    for one in (log, reading):
        await one.close()
    return {"rate": rate, "produce_consume_ms": spread(clocks.direct), "loss_plan_ms": spread(clocks.planned)}


def turn(bench: Bench, jobs: Sequence[str], number: int) -> NewRecord:
    """The report of this number: ``ACTIVE`` jobs in turn, of which one after the other ends and is followed by the next."""
    turns, place = divmod(number, ACTIVE)
    generation, mine = divmod(turns + place * REPORTS // ACTIVE, REPORTS)
    return report(bench, jobs[generation * ACTIVE + place], mine, time.time_ns() // 10**6)


async def memory(folder: Path, bootstrap: str) -> dict[str, Any]:
    """An hour's events in one batch, and the services' memory after they have read them."""
    bench = Bench(folder, bootstrap, "hour")
    log = await bench.open()
    processes = {name: bench.service(name) for name in (*SERVICES, "worker-monitor")}
    jobs = [f"job-{number}" for number in range(HOUR_JOBS)]
    await append(log, beginning(bench, jobs, 30_000))
    for number in range(HOUR_S // HOUR_EVERY_S):
        await log.append([report(bench, job, number, (number + 1) * HOUR_EVERY_S * 1000) for job in jobs])
    ticks = (c.Tick(counted_ms=1000 * (second + 1)) for second in range(HOUR_S))
    await append(log, (new_record(CLUSTER, "default", tick, 1000) for tick in ticks))
    due = (HOUR_S // 30 - 2) * HOUR_JOBS
    reader, found = log.reader({CLUSTER: 0}), 0
    while found < due:
        found += sum(GROWTH in record.value for record in await reader.poll(max_records=5000))
    await reader.close()
    await asyncio.sleep(3)  # for the services that read the categorizer's last events
    held = {f"{name}_mib": resident(process) for name, process in processes.items()}
    end(list(processes.values()))
    await log.close()
    return held


async def append(log: KafkaLog | Log, records: Iterator[NewRecord]) -> None:
    """Append many records, a thousand at a time."""
    waiting: list[NewRecord] = []
    for record in records:
        waiting.append(record)
        if len(waiting) == 1000:  # noqa: PLR2004 - see above
            await log.append(waiting)
            waiting = []
    if waiting:
        await log.append(waiting)


def resident(process: subprocess.Popen[bytes]) -> int:
    """MiB of memory that a process holds."""
    return int(psutil.Process(process.pid).memory_info().rss) >> 20


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Stop processes."""
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()


def main() -> None:
    """Measure, and print one JSON object or the same in lines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=int, default=2_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        running_broker(Path(folder) / "broker", home=HOME) as broker,
    ):
        result: dict[str, Any] = {
            "cores": os.cpu_count(),
            "latency": asyncio.run(latency(Path(folder), broker.bootstrap, chosen.rate, chosen.seconds)),
            "memory": asyncio.run(memory(Path(folder), broker.bootstrap)),
        }
    if chosen.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(name, value if not isinstance(value, dict) else "")
        for key, row in value.items() if isinstance(value, dict) else ():
            print(f"  {key:20} {row}")


if __name__ == "__main__":
    main()

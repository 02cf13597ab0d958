"""Cost of the log on Kafka: throughput, latency, scaling out and memory, each beside a bare client in the same run.

* *throughput*: one categorizer process over a topic of many reports until it has read them all, beside a bare
  ``getmany`` and decode loop over the same topic: bare, categorizer, bare in each round, on a new topic. Shares of the
  bare loop are printed with their least, median and greatest round, by the wall clock and by each process's CPU time.
  A decision costs as much as several reports, so the share depends on how many reports an interval of 30 s has: it is
  printed for a job that reports every three seconds and for one that reports every second.
* *scale*: the same with 1, 2 and 4 categorizer processes beside each other, in turn in each round.
* *latency*: reports at a steady rate; from a report's append to the append of the decision that it caused, beside bare
  produce → consume at the same rate on a topic of its own.
* *memory*: the resident set of each categorizer after all of it (``kafka_plans.py``: every service's after an hour).

It starts its own broker (``make kafka``). Broker, load and categorizers share the machine's cores, so that on few
cores scaling out shows its cost and not its gain.

Run: ``python benchmarks/kafka.py [--reports 2000000] [--rounds 2] [--members 1 2 4] [--every-ms 3000 1000] [--json]``
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.consumer import fetcher

from steepest.app.installation import apply_topics, open_log
from steepest.app.settings.reading import read_settings
from steepest.app.settings.rows import as_environment
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import Installation, KafkaPlace, NodeSpec, StateFolder
from steepest.events.common import Resources
from steepest.events.loss import JobWatched, LossReported
from steepest.events.parameters import SpeConParameters
from steepest.events.received import ID, SEQUENCE, SOURCE, DecisionId
from steepest.events.registry import LOSS
from steepest.log.base import NewRecord, TopicPartition
from steepest.log.kafka.broker import running_broker
from steepest.log.kafka.clients import consumer
from steepest.log.kafka.kafka_log import KafkaLog
from steepest.log.kafka.kafka_reader import ParsedRecords
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.runtime.decode import new_record
from steepest.runtime.layout import Layout

HOME = Path(__file__).parents[1] / ".kafka"
JOBS = 400
INTERVAL_MS = 30_000
CLUSTER = TopicPartition("cluster")
LATENCY_JOBS = 20
WARM_UP_S = 2.0
GROWTH = b'"GrowthMeasured"'


class Bench:
    """An installation on a broker, created for each measurement."""

    def __init__(self, folder: Path, bootstrap: str, name: str) -> None:
        self.kafka = KafkaSettings(bootstrap=bootstrap, prefix=f"{name}-")
        self.folder = StateFolder(folder / name)
        self.folder.create(Installation(nodes=(NodeSpec("n1", Resources(1000)),)))
        self.folder.remember_kafka(KafkaPlace(bootstrap, self.kafka.prefix))
        self.layout: Layout = self.folder.read().layout

    async def open(self) -> KafkaLog:
        """Its topics, and a handle on them."""
        await apply_topics(self.kafka, self.layout)
        log = open_log(read_settings({"state_dir": self.folder.root}), self.folder.read())
        assert isinstance(log, KafkaLog)
        return log

    def service(self, name: str = "categorizer") -> subprocess.Popen[bytes]:
        """Start one more process."""
        env = {**os.environ, **as_environment(Settings(kafka=self.kafka)), "STEEPEST_STATE_DIR": str(self.folder.root)}
        return subprocess.Popen(
            [sys.executable, "-m", f"steepest_{name.replace('-', '_')}"],
            env=env,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )


def watched(layout: Layout, job: str, interval_ms: int) -> NewRecord:
    """The first record of a job."""
    parameters = SpeConParameters(interval_ms=interval_ms)
    event = JobWatched(job=job, pool="default", incarnation=1, metric="loss", parameters=parameters)
    return new_record(layout.of_key("loss", job), job, event, 0, {SOURCE: f"bench/{job}", SEQUENCE: "0"})


def report(layout: Layout, job: str, number: int, at_ms: int) -> NewRecord:
    """A job's report with this number."""
    event = LossReported(job=job, incarnation=1, step=number, value=1 / (1 + number))
    return new_record(
        layout.of_key("loss", job), job, event, at_ms, {SOURCE: f"bench/{job}", SEQUENCE: str(number + 1)}
    )


async def fill(log: KafkaLog, layout: Layout, reports: int, every_ms: int) -> None:
    """Append all reports, a round of all jobs at a time."""
    jobs = [f"job-{number}" for number in range(JOBS)]
    await log.append([watched(layout, job, INTERVAL_MS) for job in jobs])
    for number in range(reports // JOBS):
        await log.append([report(layout, job, number, (number + 1) * every_ms) for job in jobs])


async def bare(bench: Bench) -> tuple[float, float]:
    """Seconds on the wall and of CPU that ``getmany`` and decoding take for the whole topic."""
    ours, fetcher.PartitionRecords = (
        fetcher.PartitionRecords,
        ParsedRecords.__base__,
    )  # the client with its default settings
    try:
        return await _bare(bench)
    finally:
        fetcher.PartitionRecords = ours


async def _bare(bench: Bench) -> tuple[float, float]:
    client = consumer(bench.kafka)
    await client.start()
    partitions = [KafkaPartition(f"{bench.kafka.prefix}loss", at.partition) for at in bench.layout.of_topic("loss")]
    client.assign(partitions)
    left = sum((await client.end_offsets(partitions)).values())
    for partition in partitions:
        client.seek(partition, 0)
    began, began_cpu = time.perf_counter(), time.process_time()
    while left:
        for batch in (await client.getmany(timeout_ms=1000, max_records=1000)).values():
            for record in batch:
                LOSS.decode(record.value)
            left -= len(batch)
    took = time.perf_counter() - began, time.process_time() - began_cpu
    await client.stop()
    return took


async def categorized(bench: Bench, log: KafkaLog, members: int, due: int) -> tuple[float, float, list[int]]:
    """Seconds that all reports take, of the wall and of CPU, and memory in MiB.

    The start of a process is left out: the clock starts at the first decisions, and records read before
    that do not count, so the measured part is representative.
    """
    start = await log.end(CLUSTER)
    processes = [bench.service() for _ in range(members)]
    reader = log.reader({CLUSTER: start})
    began, began_cpu, found, before, counted_from = 0.0, 0.0, 0, 0, 0
    while found < due:
        for record in await reader.poll(max_records=5000):
            if not began:
                began, began_cpu, counted_from = time.perf_counter(), cpu_of(processes), await log.end(CLUSTER)
            found += GROWTH in record.value
            before = found if record.offset < counted_from else before
    whole = due / (due - before)
    took, took_cpu = whole * (time.perf_counter() - began), whole * (cpu_of(processes) - began_cpu)
    memory = [psutil.Process(process.pid).memory_info().rss >> 20 for process in processes]
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()
    await reader.close()
    return took, took_cpu, memory


def cpu_of(processes: Sequence[subprocess.Popen[bytes]]) -> float:
    """CPU seconds that processes have used so far."""
    return sum(sum(psutil.Process(process.pid).cpu_times()[:2]) for process in processes)


class Round(msgspec.Struct):
    """One topic, read by a bare loop and by some categorizers: seconds of the wall and of CPU, and memory in MiB."""

    bare: tuple[float, float]
    categorizers: tuple[float, float]
    memory: list[int]


async def one_round(bench: Bench, reports: int, members: int, every_ms: int) -> Round:
    """Fill a topic, read it in turns, and remove it."""
    log = await bench.open()
    await fill(log, bench.layout, reports, every_ms)
    # One measurement for each interval that a later report has ended.
    due = ((reports // JOBS - 1) * every_ms // INTERVAL_MS - 1) * JOBS
    before = await bare(bench)
    wall, cpu, memory = await categorized(bench, log, members, due)
    after = await bare(bench)
    await log.close()
    admin = AIOKafkaAdminClient(**bench.kafka.client())
    await admin.start()
    await admin.delete_topics([bench.kafka.prefix + topic for topic in bench.layout.partitions()])
    await admin.close()
    return Round(bare=((before[0] + after[0]) / 2, (before[1] + after[1]) / 2), categorizers=(wall, cpu), memory=memory)


async def throughput(
    folder: Path, bootstrap: str, *, reports: int, members: Sequence[int], every_ms: Sequence[int], rounds: int
) -> dict[str, dict[str, Any]]:
    """Every number of processes and every rate of reports in turn, in each round."""
    found: dict[tuple[int, int], list[Round]] = {pair: [] for pair in itertools.product(members, every_ms)}
    for number in range(rounds):
        for (count, every), done in found.items():
            bench = Bench(folder, bootstrap, f"round{number}x{count}x{every}")
            done.append(await one_round(bench, reports, count, every))
    return {
        f"{count}, every {every} ms": {
            "share_of_bare": between([one.bare[0] / one.categorizers[0] for one in done]),
            "share_of_bare_by_cpu": between([one.bare[1] / one.categorizers[1] for one in done]),
            "bare_per_s": round(statistics.median(reports / one.bare[0] for one in done)),
            "categorizers_per_s": round(statistics.median(reports / one.categorizers[0] for one in done)),
            "memory_mib": done[-1].memory,
        }
        for (count, every), done in found.items()
    }


def between(ratios: Sequence[float]) -> dict[str, float]:
    """The least, the median and the greatest."""
    found = {"min": min(ratios), "median": statistics.median(ratios), "max": max(ratios)}
    return {name: round(ratio, 2) for name, ratio in found.items()}


async def latency(folder: Path, bootstrap: str, rate: int, seconds: int) -> dict[str, Any]:
    """Steady reports, and the times of the decisions that they cause; all times by the same clock."""
    bench = Bench(folder, bootstrap, "latency")
    log, reading = await bench.open(), open_log(read_settings({"state_dir": bench.folder.root}), bench.folder.read())
    jobs = [f"job-{number}" for number in range(LATENCY_JOBS)]
    await log.append([watched(bench.layout, job, 100) for job in jobs])
    process = bench.service()
    sent: dict[tuple[int, int], float] = {}
    direct: list[float] = []
    decided: list[float] = []
    stop, works = asyncio.Event(), asyncio.Event()

    async def follow(at: Sequence[TopicPartition]) -> None:
        reader = reading.reader({each: await reading.end(each) for each in at})
        while not stop.is_set():
            for record in await reader.poll(timeout_s=0.5):
                now = time.perf_counter()
                cause = DecisionId.parse(record.headers.get(ID, ""))
                if record.at.topic == "loss" and (record.at.partition, record.offset) in sent:
                    direct.append(now - sent[record.at.partition, record.offset])
                elif GROWTH in record.value:
                    works.set()
                if cause is not None and GROWTH in record.value and (cause.partition, cause.offset) in sent:
                    decided.append(now - sent[cause.partition, cause.offset])
        await reader.close()

    following = [asyncio.create_task(follow(bench.layout.of_topic("loss"))), asyncio.create_task(follow([CLUSTER]))]
    began, number, batch = time.perf_counter(), 0, max(1, rate // 200)
    measured_from = float("inf")  # until the process has started, and the group has assigned the partitions
    while time.perf_counter() - measured_from < seconds:
        if works.is_set() and measured_from == float("inf"):
            measured_from = time.perf_counter() + WARM_UP_S
        due = began + number * batch / rate
        await asyncio.sleep(max(0, due - time.perf_counter()))
        records = [
            report(bench.layout, jobs[(number * batch + each) % LATENCY_JOBS], number, time.time_ns() // 10**6)
            for each in range(batch)
        ]
        appended = time.perf_counter()
        for record, offset in zip(records, await log.append(records), strict=True):
            if appended > measured_from:
                sent[record.to.partition, offset] = appended
        number += 1
    await asyncio.sleep(1)
    stop.set()
    await asyncio.gather(*following)
    process.terminate()
    process.wait()
    await log.close()
    await reading.close()
    return {"rate": rate, "produce_consume_ms": spread(direct), "loss_decision_ms": spread(decided)}


def spread(seconds: Sequence[float]) -> dict[str, float]:
    """Median and 99th percentile in milliseconds."""
    cuts = statistics.quantiles(seconds, n=100) if len(seconds) > 1 else [float("nan")] * 99
    return {"p50": round(1000 * cuts[49], 1), "p99": round(1000 * cuts[98], 1), "n": len(seconds)}


def main() -> None:
    """Measure, and print one JSON object or the same in lines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reports", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rate", type=int, default=2_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--members", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--every-ms", type=int, nargs="+", default=[3_000, 1_000])
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as folder,
        running_broker(Path(folder) / "broker", home=HOME) as broker,
    ):
        result = {
            "cores": os.cpu_count(),
            "reports": chosen.reports,
            "latency": asyncio.run(latency(Path(folder), broker.bootstrap, chosen.rate, chosen.seconds)),
            "throughput": asyncio.run(
                throughput(
                    Path(folder),
                    broker.bootstrap,
                    reports=chosen.reports,
                    members=chosen.members,
                    every_ms=chosen.every_ms,
                    rounds=chosen.rounds,
                )
            ),
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

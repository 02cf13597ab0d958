"""Cost of the log on Kafka: throughput, latency, scaling out and memory, each beside a bare client in the same run.

* *throughput*: one categorizer process over a topic of many reports until it has read them all, beside a bare
  ``getmany`` and decode loop over the same topic: bare, categorizer, bare in each round, on a new topic. Shares of the
  bare loop have their least, median and greatest round, by the wall clock and by each process's CPU time.
  A decision costs as much as several reports, so the share depends on how many reports an interval of 30 s has: it is
  measured for a job that reports every three seconds and, in full, for one that reports every second.
* *scale*: the same with 2 and, in full, 4 categorizer processes beside each other, in turn in each round.
* *latency*: reports at a steady rate; from a report's append to the append of the decision that it caused, beside bare
  produce → consume at the same rate on a topic of its own.
* *memory*: the resident set of each categorizer after all of it.

It starts its own broker (``make kafka``). Broker, load and categorizers share the machine's cores, so that on few
cores scaling out shows its cost and not its gain.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil
from aiokafka import TopicPartition as KafkaPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.consumer import fetcher
from benchmarks.frame.bench import REPOSITORY, between, doing, each, figure, options, percentiles, skip

from steepest.app.installation import apply_topics, open_log
from steepest.app.settings.reading import read_settings
from steepest.app.settings.rows import as_environment
from steepest.app.settings.tree import MetricsSettings, Settings
from steepest.app.state_folder import Installation, KafkaPlace, NodeSpec, StateFolder
from steepest.errors import InputError
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

JOBS = 400
INTERVAL_MS = 30_000
CLUSTER = TopicPartition("cluster")
LATENCY_JOBS = 20
WARM_UP_S = 2.0
GROWTH = b'"GrowthMeasured"'


@contextmanager
def broker() -> Iterator[tuple[Path, str]]:
    """A folder for installations, and the address of a broker of one's own."""
    doing("starting a broker")
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        try:
            with running_broker(Path(name) / "broker", home=REPOSITORY / ".kafka") as started:
                yield Path(name), started.bootstrap
        except InputError as error:
            skip(f"{error}; get it with: make kafka")


class Bench:
    """An installation on a broker, created for each measurement, and processes of its services."""

    def __init__(self, at: tuple[Path, str], name: str, installation: Installation | None = None) -> None:
        folder, bootstrap = at
        self.kafka = KafkaSettings(bootstrap=bootstrap, prefix=f"{name}-")
        self.folder = StateFolder(folder / name)
        self.folder.create(installation or Installation(nodes=(NodeSpec("n1", Resources(1000)),)))
        self.folder.remember_kafka(KafkaPlace(bootstrap, self.kafka.prefix))
        self.layout: Layout = self.folder.read().layout
        self.processes: list[subprocess.Popen[bytes]] = []

    async def open(self) -> KafkaLog:
        """Its topics, and a handle on them."""
        await apply_topics(self.kafka, self.layout)
        return self.handle()

    def handle(self) -> KafkaLog:
        """A handle on its topics."""
        log = open_log(read_settings({"state_dir": self.folder.root}), self.folder.read())
        assert isinstance(log, KafkaLog)
        return log

    def start(self, service: str, port: int | None = None) -> None:
        """Start one more process of a service; ``port``: where it is to serve its metrics."""
        root = str(self.folder.root)
        settings = Settings(state_dir=root, kafka=self.kafka, metrics=MetricsSettings(port=port))
        self.processes.append(
            subprocess.Popen(
                [sys.executable, "-m", f"steepest_services.{service}"],
                env={**os.environ, **as_environment(settings)},
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
            )
        )

    def end(self) -> None:
        """Stop the processes."""
        for process in self.processes:
            process.terminate()
        while self.processes:
            self.processes.pop().wait()

    def cpu_s(self) -> float:
        """CPU seconds that the processes have used so far."""
        return sum(sum(psutil.Process(process.pid).cpu_times()[:2]) for process in self.processes)


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
    for number in each(f"appending {reports} reports, in rounds", range(reports // JOBS)):
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
    for _ in range(members):
        bench.start("categorizer")
    reader = log.reader({CLUSTER: start})
    began, began_cpu, found, before, counted_from = 0.0, 0.0, 0, 0, 0
    while found < due:
        for record in await reader.poll(max_records=5000):
            if not began:
                began, began_cpu, counted_from = time.perf_counter(), bench.cpu_s(), await log.end(CLUSTER)
            found += GROWTH in record.value
            before = found if record.offset < counted_from else before
    whole = due / max(1, due - before)
    took = whole * (time.perf_counter() - began)
    took_cpu = max(0.01, whole * (bench.cpu_s() - began_cpu))  # the kernel counts in hundredths
    memory = [psutil.Process(process.pid).memory_info().rss >> 20 for process in bench.processes]
    bench.end()
    await reader.close()
    return took, took_cpu, memory


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
    doing(f"reading them with {members} categorizers")
    wall, cpu, memory = await categorized(bench, log, members, due)
    after = await bare(bench)
    await log.close()
    admin = AIOKafkaAdminClient(**bench.kafka.client())
    await admin.start()
    await admin.delete_topics([bench.kafka.prefix + topic for topic in bench.layout.partitions()])
    await admin.close()
    return Round(bare=((before[0] + after[0]) / 2, (before[1] + after[1]) / 2), categorizers=(wall, cpu), memory=memory)


async def throughput(at: tuple[Path, str], reports: int, rounds: int, pairs: Sequence[tuple[int, int]]) -> None:
    """Every number of processes and every rate of reports in turn, in each round."""
    found: dict[tuple[int, int], list[Round]] = {pair: [] for pair in pairs}
    for number in range(rounds):
        for (count, every), done in found.items():
            bench = Bench(at, f"round{number}x{count}x{every}")
            done.append(await one_round(bench, reports, count, every))
            name = f"{count}, every {every} ms" if number == rounds - 1 else f"round {number + 1} of {rounds}"
            figure(
                name,
                share_of_bare=between([one.bare[0] / one.categorizers[0] for one in done]),
                share_of_bare_by_cpu=between([one.bare[1] / one.categorizers[1] for one in done]),
                bare_per_s=round(statistics.median(reports / one.bare[0] for one in done)),
                categorizers_per_s=round(statistics.median(reports / one.categorizers[0] for one in done)),
                memory_mib=done[-1].memory,
            )


async def latency(at: tuple[Path, str], rate: int, seconds: int) -> None:
    """Steady reports, and the times of the decisions that they cause; all times by the same clock."""
    doing(f"{rate} reports a second for {seconds} s")
    bench = Bench(at, "latency")
    log, reading = await bench.open(), bench.handle()
    jobs = [f"job-{number}" for number in range(LATENCY_JOBS)]
    await log.append([watched(bench.layout, job, 100) for job in jobs])
    bench.start("categorizer")
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
    bench.end()
    await log.close()
    await reading.close()
    figure("produce, consume", rate=rate, **percentiles([1000 * one for one in direct]))
    figure("loss to decision", rate=rate, **percentiles([1000 * one for one in decided]))


def main() -> None:
    """Measure, with a broker."""
    asked = options(
        __doc__,
        reports=(20_000, 400_000, 2_000_000),
        rounds=(1, 1, 2),
        rate=(200, 2_000, 2_000),
        seconds=(1, 5, 20),
        members=((1,), (1, 2), (1, 2, 4)),
        every_ms=((3_000,), (3_000,), (3_000, 1_000)),
    )
    with broker() as at:
        asyncio.run(latency(at, asked.rate, asked.seconds))
        asyncio.run(throughput(at, asked.reports, asked.rounds, list(itertools.product(asked.members, asked.every_ms))))


if __name__ == "__main__":
    main()

"""``make chaos``: jobs and load on a real system and broker, faults by a seeded schedule, then proof from the topics.

The system has three pools, and two replicas of every service, which share the pools out.

Every proof reads a recording of the topics, which is extended before anything is removed and completed after
the system has stopped. The services' own state is not used.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
import tempfile
from collections.abc import Collection
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
from tests.chaos.harm import Harm
from tests.chaos.load import Load, applied, reports_in
from tests.chaos.retention import Retention
from tests.chaos.system import KafkaSystem, free_ports

from steepest.app.installation import open_snapshots
from steepest.app.installed_services import installed_services
from steepest.app.logging import configure_logging
from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import Installation, NodeSpec, PoolSpec
from steepest.cli.pool.user_requests import append, asking, new_request
from steepest.events.cluster import JobSpec, JobSubmitted
from steepest.events.common import Resources
from steepest.invariants import ALL, Audit, Status
from steepest.log.base import Record, TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.log.kafka.broker import Broker, running_broker
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.replay.record import record
from steepest.replay.replay import Replay
from steepest.runtime.decode import received
from steepest.runtime.recovery.loop_snapshots import read_pool_snapshot
from steepest.view.cluster_view import ClusterView

HOME = Path(__file__).parents[2] / ".kafka"
POOLS = tuple(
    PoolSpec(name=pool, nodes=tuple(NodeSpec(f"{pool}-{number}", Resources(500)) for number in range(2)))
    for pool in ("default", "blue", "green")
)
POOL_NAMES = tuple(pool.name for pool in POOLS)
REPLICAS = 2
TRAINING = Path(__file__).parent / "training.py"
LAST_EVENTS = 12
"""Of a job that has ended without having finished, shown to say why."""

ALONE = ("mqtt-bridge",)
"""Services that do not run here."""


async def chaos(
    folder: Path,
    broker: Broker,
    *,
    seed: int,
    kills: int,
    faults: int,
    jobs: int,
    steps: int,
    replicated: Collection[str] | None = None,
) -> dict[str, Any]:
    """Run everything; return the findings.

    Args:
        folder: An empty folder.
        broker: A running broker, which gets the faults.
        seed: Seed of the schedule.
        kills: Services to kill.
        faults: Times to harm the broker.
        jobs: Number of real trainings.
        steps: Steps of each training.
        replicated: The services that have two replicas; None: all.
    """
    kafka = KafkaSettings(bootstrap=broker.bootstrap, prefix=f"chaos{seed}-")
    services = [service for service in installed_services() if service not in ALONE]
    twice = services if replicated is None else replicated
    scales = [option for service in twice for option in ("--scale", f"{service}={REPLICAS}")]
    ports = free_ports(1 + REPLICAS * len(services))
    options = ("--policy", "specon+flowcon", "--interval", "1s", "--metrics", str(ports), *scales)
    system = KafkaSystem(folder / "state", kafka, *options)
    first, *others = POOLS
    system.folder.create(Installation(pool=first.name, nodes=first.nodes, pools=tuple(others)))
    marks = folder / "marks"
    marks.mkdir()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, system.end)
        await system.start()
        command = (sys.executable, str(TRAINING), str(marks), str(steps))
        await submit(system, jobs, JobSpec(command=command, working_dir=str(marks), requests=Resources(50), retries=50))
        layout = system.folder.read().layout
        log = system.log()
        stack.push_async_callback(log.close)
        into = FileLog(folder / "recording", layout.partitions())
        stack.push_async_callback(into.close)
        retention = Retention(system, log, layout, into)
        load, harm, stop = Load(log, layout, layout.pools), Harm(seed, system, broker, retention), asyncio.Event()
        loading = asyncio.create_task(load.run(stop))
        stack.push_async_callback(cancelled, loading)
        await harm.do(kills, faults)
        await all_over(system, jobs)
        stop.set()
        await loading
        assert await asyncio.to_thread(system.stop) == 0, system.output()
        async for _ in record(log, into):
            pass
        found = await proof(into, load, system)
    return {
        "seed": seed,
        "kills": sum(harm.kills.values()),
        "broker_faults": len(harm.faults),
        "restarts": harm.restarts,
        "removed": retention.removed,
        **found,
        "double_runs": found["double_runs"] + len(list(marks.glob("*.twice"))),
        "jobs": jobs,
        "killed": harm.kills,
    }


async def cancelled(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def submit(system: KafkaSystem, jobs: int, spec: JobSpec) -> None:
    """Submit jobs of one kind, to each pool in turn."""
    for each, name in enumerate(POOL_NAMES):
        async with asking(read_settings({"state_dir": system.folder.root, "pool": name})) as (log, pool):
            for number in range(each, jobs, len(POOLS)):
                await append(log, pool, JobSubmitted(job=f"job-{number}", request=new_request(), spec=spec))


async def all_over(system: KafkaSystem, jobs: int) -> None:
    """Wait until every job has ended."""
    while True:
        found: list[dict[str, Any]] = []
        for pool in POOL_NAMES:
            done = await asyncio.to_thread(system.call, "jobs", "--all", "--json", "--pool", pool)
            found += json.loads(done.stdout) if done.returncode == 0 else []
        if len(found) >= jobs and all(job["outcome"] for job in found):
            return
        await asyncio.sleep(0.5)


async def proof(recording: FileLog, load: Load, system: KafkaSystem) -> dict[str, Any]:
    """What the topics prove."""
    losses = [one for at in await recording.partitions("loss") for one in await records(recording, at)]
    reports = reports_in(losses)
    taken = applied(reports)
    pools = {at: await records(recording, at) for at in await recording.partitions("cluster")}
    views, broken = {at: ClusterView() for at in pools}, []
    for at, cluster in pools.items():
        audit = Audit(ALL)
        for one in cluster:
            audit.feed(received(one))
            views[at].fold(received(one))
        broken += [verdict for verdict in audit.verdicts() if verdict.status is not Status.HOLDS]
    replay = Replay(recording)
    replayed = await replay.run()
    all_jobs = [job for view in views.values() for job in view.jobs]
    events = [received(one).event for cluster in pools.values() for one in cluster]
    return {
        "reports": len(load.acknowledged),
        "lost": len(load.acknowledged - set(taken)),
        "duplicated": len(taken) - len(set(taken)) + sum(view.state.gaps for view in views.values()),
        "repeated_deliveries": len(reports) - len(taken),
        "double_runs": sum(verdict.checker == "one-place" for verdict in broken),
        "finished": sum(str(job.outcome) == "finished" for job in all_jobs),
        "unfinished": {
            job.name: [str(event) for event in events if getattr(event, "job", None) == job.name][-LAST_EVENTS:]
            for job in all_jobs
            if str(job.outcome) != "finished"
        },
        "moves": sum(job.moves for job in all_jobs),
        "nodes_lost": sum(type(event).__name__ == "NodeLost" for event in events),
        "decisions": replayed.decisions,
        "differences": replayed.differences,
        "first_difference": msgspec.to_builtins(replayed.first_difference),
        "broken": [f"{verdict.checker}: {verdict.status}: {verdict.message}" for verdict in broken],
        "views_equal": all(
            [
                encoded(views[at]) == encoded(replay.views[at]) and await live_view_equal(system, at, cluster)
                for at, cluster in pools.items()
            ]
        ),
    }


async def live_view_equal(system: KafkaSystem, at: TopicPartition, cluster: list[Record]) -> bool:
    """Whether the live system's view of a pool at its stop equals a new fold of the same records."""
    log = system.log()
    try:
        store = open_snapshots(read_settings({"state_dir": system.folder.root}), log)
        snapshot = await read_pool_snapshot(store, log, at)
    finally:
        await log.close()
    assert snapshot is not None, "the system has kept no snapshot"
    view = ClusterView()
    for one in cluster[: snapshot.view.position]:
        view.fold(received(one))
    return encoded(view) == encoded(ClusterView(snapshot.view))


def encoded(view: ClusterView) -> bytes:
    """A view as bytes."""
    return msgspec.msgpack.encode(view.state, order="sorted")


async def records(log: FileLog, at: TopicPartition) -> list[Record]:
    """All records of a partition."""
    end, found = await log.end(at), list[Record]()
    reader = log.reader({at: 0})
    while len(found) < end:
        found.extend(await reader.poll())
    await reader.close()
    return found


def main() -> None:
    """Run as the command line says; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--faults", type=int, default=None, help="times the broker is harmed; default: one in 20 kills")
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=None, help="of each job; default: enough for the kills")
    chosen = parser.parse_args()
    configure_logging(logging.ERROR)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that stopping this script leaves nothing running
    faults = max(1, chosen.kills // 20) if chosen.faults is None else chosen.faults
    # Jobs must outlast the faults to be moved between them: a kill takes a second, a restart 20, and a step 0.04.
    steps = chosen.steps or 25 * chosen.kills + 500 * (faults + 1)
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as folder,
        running_broker(Path(folder) / "broker", home=HOME) as broker,
    ):
        found = asyncio.run(
            chaos(
                Path(folder),
                broker,
                seed=chosen.seed,
                kills=chosen.kills,
                faults=faults,
                jobs=chosen.jobs,
                steps=steps,
            )
        )
    print(json.dumps(found))  # noqa: T201 - what it is for
    sound = not (
        found["lost"] or found["duplicated"] or found["double_runs"] or found["differences"] or found["broken"]
    )
    sys.exit(0 if sound and found["finished"] == found["jobs"] and found["views_equal"] else 1)


if __name__ == "__main__":
    main()

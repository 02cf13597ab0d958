"""Cost of the Docker adapter: many idle containers on one engine, with a heartbeat every second.

* *CPU at rest*: processor time of the adapter's process over some time, in percent of a core; beside it the same time of a
  process that reads the same statistics streams and does nothing with them.
* *streams*: statistics streams that are open for each container.
* *limits*: time from a call of ``limit`` to its return, for containers in turn.

It starts its own engine (``make engine``, ``make images``; root) and skips where it cannot. What the engine
itself uses for measuring is not counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.frame.bench import doing, figure, options, skip
from tests.harness.docker_harness import why_not

from steepest.cluster.docker import Allowed, DockerCluster, DockerNode
from steepest.cluster.docker.host import Host
from steepest.cluster.docker.stats import Stats, read_lines
from steepest.cluster.port import ReplicaId, ReplicaSpec
from steepest.events.common import Resources
from steepest_lab.docker_engines import images
from steepest_lab.docker_engines.engine_daemon import running_engine

NODE = "bench"
STARTS_AT_ONCE = 4
SETTLE_S = 5.0
LIMITS = 50


class Bare(Stats):
    """The stream alone: lines are read and thrown away."""

    def _follow(self) -> None:
        with contextlib.suppress(Exception), contextlib.closing(self._open()) as response:
            read_lines(response, lambda _: not self._leave.is_set())


async def started(cluster: DockerCluster, count: int) -> list[ReplicaId]:
    """Containers that sleep."""
    free = asyncio.Semaphore(STARTS_AT_ONCE)

    async def start(replica: ReplicaId) -> None:
        async with free:
            await cluster.start(replica, 1, NODE, ReplicaSpec(command=("sleep", "100000")), None)

    replicas = [ReplicaId(f"job-{number}") for number in range(count)]
    await asyncio.gather(*(start(replica) for replica in replicas))
    return replicas


async def at_rest(cluster: DockerCluster, count: int, seconds: float) -> tuple[float, float]:
    """Percent of a core that this process uses while it takes in heartbeats, and streams for each container."""
    measured = asyncio.Event()

    async def listen() -> None:
        async for beat in cluster.heartbeats():
            if sum(report.cpu_m is not None for report in beat.replicas) == count:
                measured.set()

    listening = asyncio.create_task(listen())
    await measured.wait()
    await asyncio.sleep(SETTLE_S)
    streams = sum(thread.name.startswith("stats-") for thread in threading.enumerate())
    used_s, began = time.process_time(), time.monotonic()
    await asyncio.sleep(seconds)
    percent = 100 * (time.process_time() - used_s) / (time.monotonic() - began)
    listening.cancel()
    return percent, streams / count


async def bare(host: Host, names: list[str], seconds: float) -> float:
    """Percent of a core for reading the streams alone."""
    streams = [Bare(host, name) for name in names]
    await asyncio.sleep(SETTLE_S)
    used_s, began = time.process_time(), time.monotonic()
    await asyncio.sleep(seconds)
    percent = 100 * (time.process_time() - used_s) / (time.monotonic() - began)
    for stream in streams:
        stream.close()
    return percent


async def limits(cluster: DockerCluster, replicas: list[ReplicaId]) -> list[float]:
    """Milliseconds of each call."""
    took = []
    for number, replica in enumerate(replicas):
        began = time.perf_counter()
        await cluster.limit(replica, 1, 100 + number)
        took.append((time.perf_counter() - began) * 1000)
    return took


async def bench(folder: Path, url: str, count: int, seconds: float) -> None:
    """All figures."""
    doing(f"starting {count} containers")
    node = DockerNode(name=NODE, url=url, capacity=Resources(cpu_m=2000, memory_mib=4096))
    cluster = DockerCluster(folder / "state", [node], "bench", image=images.BASE, allowed=Allowed((), folder))
    replicas = await started(cluster, count)
    doing(f"at rest for {seconds:g} s")
    percent, streams = await at_rest(cluster, count, seconds)
    figure("adapter at rest", containers=count, percent_of_a_core=round(percent, 2), streams_each=round(streams, 2))
    took = await limits(cluster, replicas[:LIMITS])
    figure("limit", ms_median=round(statistics.median(took), 1), ms_max=round(max(took), 1))
    await cluster.close()
    doing(f"streams alone for {seconds:g} s")
    host = Host(node)
    names = [str(each["Id"]) for each in host.client().containers()]
    baseline = await bare(host, names, seconds)
    host.close()
    figure("bare streams", percent_of_a_core=round(baseline, 2))


if __name__ == "__main__":
    asked = options(__doc__, containers=(1, 40, 200), seconds=(1.0, 10.0, 30.0))
    if why := why_not():
        skip(why)
    with tempfile.TemporaryDirectory(prefix="steepest-") as name, running_engine(Path(name) / "engine") as engine:
        with contextlib.closing(engine.client()) as client:
            images.provide(client, images.default_folder())
        asyncio.run(bench(Path(name), engine.url, asked.containers, asked.seconds))

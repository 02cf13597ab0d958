"""Steepest's services as processes over one log in files.

It owns how they are started and given their jobs.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Mapping

import psutil
from benchmarks.kubernetes.bare_cluster import (
    CLAIM,
    JOB_CPU_M,
    JOB_MEMORY_MIB,
    NODE_CPU,
    NODE_MEMORY_GI,
    node_name,
)
from benchmarks.kubernetes.contenders import Contender, Stage
from benchmarks.kubernetes.control_plane import QPS
from benchmarks.kubernetes.fake_kubelets import NAMESPACE

from steepest.app.installed_services import wanted_services
from steepest.app.service_main import STUCK_STATUS
from steepest.app.settings.rows import as_environment
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import KUBERNETES, Installation, NodeSpec, StateFolder
from steepest.clock import SystemClock
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.log.base import TopicPartition
from steepest.log.files.file_log import FileLog
from steepest.runtime.decode import new_record, received

ACTING = ("log-collector", "migrator", "resizer")
"""They send requests to the API server."""

AT = TopicPartition("cluster")
BATCH = 50
READY_S = 300.0


class SteepestServices(Contender):
    """All services that an installation without devices runs; each acting one is a user of its own."""

    name = "steepest"
    users = ACTING

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        folder = stage.folder
        self._folder = StateFolder(folder / "state")
        capacity = Resources(cpu_m=1_000 * NODE_CPU, memory_mib=1024 * NODE_MEMORY_GI)
        engine = f"{KUBERNETES}{NAMESPACE}/{CLAIM}:{folder}"
        specs = tuple(NodeSpec(node_name(number), capacity, engine=engine) for number in range(stage.nodes))
        self._installation = Installation(nodes=specs, heartbeat_ms=1_000, image="bench")
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    async def start(self) -> None:
        """Start the services; returns when all nodes have been heard of, and the pool has its parameters.

        Raises:
            TimeoutError: They were not.
        """
        self._folder.create(self._installation)
        self._log = FileLog(self._folder.log, self._installation.layout.partitions())
        for service in wanted_services(Settings()):
            self._begin(service)
        await self._await_nodes()
        await self._append(c.PoolConfigured(parameters=PoolParameters()))

    async def submit(self, jobs: int) -> Mapping[str, float]:
        """Submit as ``steepest submit`` does. See ``Contender.submit``."""
        began = time.monotonic()
        spec = c.JobSpec(command=("train",), requests=Resources(cpu_m=JOB_CPU_M, memory_mib=JOB_MEMORY_MIB))
        names = [f"job-{number:05d}" for number in range(jobs)]
        submitted_s: dict[str, float] = {}
        for first in range(0, jobs, BATCH):
            batch = names[first : first + BATCH]
            submitted_s |= dict.fromkeys(batch, time.time())
            await self._append(*(c.JobSubmitted(job=name, request=f"submit-{name}", spec=spec) for name in batch))
            await asyncio.sleep(max(began + (first + BATCH) / QPS - time.monotonic(), 0.0))
        return submitted_s

    def processes(self) -> Mapping[str, psutil.Process]:
        """The services' processes. One that has ended because it was stuck is started again, as a cluster would do.

        Raises:
            RuntimeError: One has ended otherwise.
        """
        for name, process in self._processes.items():
            if process.poll() == STUCK_STATUS:
                self.restarts += 1
                self._begin(name)
            elif process.poll() is not None:
                end = (self._folder.root / f"{name}.log").read_text(errors="replace")[-2_000:]
                raise RuntimeError(f"{name} has ended: {end}")
        return {name: psutil.Process(process.pid) for name, process in self._processes.items()}

    async def decided_ms(self) -> Mapping[str, int]:
        """By job, the time of its first plan in the log."""
        found: dict[str, int] = {}
        for received_event in await self._events():
            if isinstance(received_event.event, c.PlacementPlanned):
                found.setdefault(received_event.event.job, received_event.at_ms)
        return found

    async def stop(self) -> None:
        """End all services."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        await self._log.close()

    def _begin(self, service: str) -> None:
        with (self._folder.root / f"{service}.log").open("ab") as output:
            self._processes[service] = subprocess.Popen(
                [sys.executable, "-m", f"steepest_services.{service.replace('-', '_')}"],
                env=self._environment(service if service in ACTING else ""),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def _environment(self, user: str) -> dict[str, str]:
        settings = as_environment(Settings(state_dir=str(self._folder.root)))
        kubeconfig = {"KUBECONFIG": str(self.stage.plane.kubeconfig(user))} if user else {"KUBECONFIG": "/nowhere"}
        return {**os.environ, **settings, **kubeconfig}

    async def _events(self) -> list[Received[c.ClusterEvent]]:
        reader = self._log.reader({AT: 0})
        found: list[Received[c.ClusterEvent]] = []
        while records := await reader.poll(timeout_s=0.5):
            found += map(received, records)
            if len(found) >= (await self._log.end(AT)):
                break
        await reader.close()
        return found

    async def _append(self, *events: c.ClusterEvent) -> None:
        now_ms = SystemClock().now_ms()
        await self._log.append([new_record(AT, self._installation.pool, event, now_ms) for event in events])

    async def _await_nodes(self) -> None:
        reader = self._log.reader({AT: 0})
        joined: set[str] = set()
        async with asyncio.timeout(READY_S):
            while len(joined) < self.stage.nodes:
                self.processes()
                for record in await reader.poll(timeout_s=0.5):
                    event = received(record).event
                    if isinstance(event, c.NodeJoined):
                        joined.add(event.node)
        await reader.close()

"""A gateway as a process of its own over a state folder, and the log that it reads."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steepest.app.state_folder import Installation, NodeSpec, StateFolder
from steepest.clock import SystemClock
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.log.base import NewRecord
from steepest.log.files.file_log import FileLog
from steepest.runtime.decode import new_record
from steepest.runtime.recovery.log_identity import open_partitions

PATIENCE_S = 60.0
NODES = {"n1": 4_000, "n2": 4_000}


class ServedFolder:
    """A state folder without a system, and its gateway.

    Attributes:
        address: Of the gateway that runs.
        patience_s: For how long its first answer is waited for.
        output_file: What the gateway prints.
        files_most: How many files the gateway may have open; None: as many as this process.
    """

    def __init__(self, root: Path, nodes: dict[str, int] | None = None) -> None:
        self.folder = StateFolder(root / "state")
        self._nodes = nodes or NODES
        self.patience_s = PATIENCE_S
        self.files_most: int | None = None
        self._installation = Installation(nodes=tuple(NodeSpec(n, Resources(m)) for n, m in self._nodes.items()))
        self.folder.create(self._installation)
        self._at = self._installation.layout.of_pool("default")
        self._process: subprocess.Popen[bytes] | None = None
        self.output_file = root / "gateway.log"
        self._port = 0
        asyncio.run(self._open())

    async def _open(self) -> None:
        await self._configure("default")
        await self._append_all(
            [
                c.Tick(counted_ms=1_000),
                *(c.NodeJoined(node=name, capacity=Resources(cpu_m=cpu_m)) for name, cpu_m in self._nodes.items()),
            ]
        )

    def configure(self, pool: str) -> None:
        """Open a pool's log and configure it, as a system does that runs on it for the first time."""
        asyncio.run(self._configure(pool))

    async def _configure(self, pool: str) -> None:
        layout = self.folder.read().layout
        log = FileLog(self.folder.log, layout.partitions())
        await open_partitions(log, layout, SystemClock())
        event = c.PoolConfigured()
        await log.append([new_record(layout.of_pool(pool), pool, event, SystemClock().now_ms())])
        await log.close()

    def append(self, *events: c.ClusterEvent, later_ms: int = 0) -> int:
        """Append events as of now, or of later; give the offset of the last one."""
        return asyncio.run(self._append_all(events, later_ms))

    async def _append_all(self, events: Sequence[c.ClusterEvent], later_ms: int = 0) -> int:
        log = FileLog.open(self.folder.log)
        now_ms = SystemClock().now_ms() + later_ms
        try:
            offsets = await log.append([new_record(self._at, "default", event, now_ms) for event in events])
        finally:
            await log.close()
        return offsets[-1]

    def append_raw(self, *values: bytes) -> None:
        """Append records that may be no events."""

        async def append() -> None:
            log = FileLog.open(self.folder.log)
            await log.append([NewRecord(to=self._at, key="default", value=value, at_ms=1) for value in values])
            await log.close()

        asyncio.run(append())

    def start(self, **settings: str) -> str:
        """Start the gateway, on the port that it had before; give its address once it answers."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("STEEPEST_")}
        env |= {
            "STEEPEST_STATE_DIR": str(self.folder.root),
            "STEEPEST_GATEWAY_PORT": str(self._port),
            **settings,
        }
        with self.output_file.open("ab") as output:
            self._process = subprocess.Popen(
                [*limited(self.files_most), sys.executable, "-m", "steepest_services.gateway"],
                env=env,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.address = self._remembered()
        self._port = int(self.address.rpartition(":")[2])
        return self.address

    def _remembered(self) -> str:
        assert self._process is not None
        deadline = time.monotonic() + self.patience_s
        while True:
            if self._process.poll() is not None:
                self._process = None
                raise AssertionError(self.output_file.read_text())
            assert time.monotonic() < deadline, self.output_file.read_text()
            try:
                address: str = json.loads(self.folder.gateway.read_bytes())["address"]
                urllib.request.urlopen(f"{address}/healthz", timeout=5).close()
            except (OSError, ValueError):
                time.sleep(0.05)
            else:
                return address

    @property
    def token(self) -> str:
        """The gateway's own token."""
        found: str = json.loads(self.folder.gateway.read_bytes())["token"]
        return found

    @property
    def pid(self) -> int:
        """The gateway's process."""
        assert self._process is not None
        return self._process.pid

    @property
    def output(self) -> str:
        """What the gateway has printed."""
        return self.output_file.read_text()

    def kill(self) -> None:
        """Kill the gateway."""
        self._end(signal.SIGKILL)
        self.folder.gateway.unlink(missing_ok=True)

    def stop(self) -> int:
        """Stop it; give its exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(number)
        status = self._process.wait(PATIENCE_S)
        self._process = None
        return status


def limited(files_most: int | None) -> list[str]:
    """What a command begins with whose process may have so many files open."""
    return ["sh", "-c", f'ulimit -n {files_most}; exec "$@"', "sh"] if files_most else []


def submitted(job: str, **spec: Any) -> list[c.ClusterEvent]:
    """A job that is submitted and admitted."""
    described = c.JobSpec(command=("train",), requests=Resources(cpu_m=1), checkpoint_mode=None, **spec)
    return [
        c.JobSubmitted(job=job, request=f"request-{job}", spec=described),
        c.JobAdmitted(job=job, request=f"request-{job}"),
    ]


def running(job: str, node: str, **spec: Any) -> list[c.ClusterEvent]:
    """A job that runs."""
    plan = f"plan-{job}"
    because = c.Because(rule="spread: least allocated afterwards")
    return [
        *submitted(job, **spec),
        c.PlacementPlanned(plan=plan, job=job, incarnation=0, nodes=(node,), because=because),
        c.StepBegun(plan=plan, step=c.Step.START, attempt=1, job=job, incarnation=1, node=node),
        c.JobPlaced(plan=plan, attempt=1, job=job, incarnation=1, node=node),
        c.ReplicaStarted(job=job, incarnation=1, node=node),
    ]


def measured(job: str, interval: int, total: float, category: c.Category = c.Category.PROGRESSING) -> c.GrowthMeasured:
    """A measurement of a job's growth."""
    return c.GrowthMeasured(
        job=job,
        interval=interval,
        total=total,
        count=1,
        largest=10.0,
        first_ms=interval,
        last_ms=interval,
        growth=0.05,
        category=category,
    )

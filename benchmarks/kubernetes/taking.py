"""Takes one turn: a new control plane, one contender on it, and what was seen of it until all pods run.

It owns what is measured, and when, alike for all contenders. It must never know which one it measures.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
from benchmarks.kubernetes import control_plane
from benchmarks.kubernetes.audit_log import requests_by_kind
from benchmarks.kubernetes.bare_cluster import BareCluster
from benchmarks.kubernetes.contenders import Contender, Stage
from benchmarks.kubernetes.control_plane import ADMIN, free_ports
from benchmarks.kubernetes.kubelets_process import Kubelets
from benchmarks.kubernetes.turn import OWN, Turn

MIB = 1 << 20
LOOK_S = 0.5
REPORT_S = 30.0
SETTLE_S = 60
QUIET_SECONDS = 2
BUSY_S = 0.25
"""Processor time in a second: more than the heartbeats of 1,000 nodes take of it, and less than work on a new kind does."""


class Watched:
    """Memory and processor time of some processes."""

    def __init__(self) -> None:
        self.rss_mib: dict[str, int] = {}
        self.cpu_s: dict[str, float] = {}
        self._before_s: dict[str, float] = {}

    def look(self, processes: Mapping[str, psutil.Process]) -> None:
        """Take in what they have now."""
        for name, process in processes.items():
            used = process.cpu_times()
            self._before_s.setdefault(name, used.user + used.system)
            self.cpu_s[name] = round(used.user + used.system - self._before_s[name], 1)
            self.rss_mib[name] = max(self.rss_mib.get(name, 0), process.memory_info().rss // MIB)


@asynccontextmanager
async def bare_stage(
    programs: Path, folder: Path, nodes: int, users: tuple[str, ...]
) -> AsyncIterator[tuple[Stage, Kubelets]]:
    """A new control plane with its nodes and their kubelets."""
    with control_plane.running(programs, folder / "plane", users) as plane:
        (port,) = free_ports(1)
        kubelets = Kubelets(plane.kubeconfig(ADMIN), folder / "kubelets", port)
        cluster = BareCluster(plane.kubeconfig(ADMIN))
        try:
            await cluster.make(nodes, port)
            yield Stage(programs=programs, folder=folder, plane=plane, cluster=cluster, nodes=nodes), kubelets
        finally:
            await cluster.close()
            kubelets.stop()


async def take_turn(
    kind: type[Contender], programs: Path, folder: Path, *, nodes: int, jobs: int, patience_s: float
) -> Turn:
    """Measure a contender once, in a folder of its own.

    Raises:
        ClusterError: A program of the control plane or of the contender has ended.
        RuntimeError: Another process has.
    """
    async with bare_stage(programs, folder, nodes, kind.users) as (stage, kubelets):
        contender = kind(stage)
        try:
            await contender.start()
            turn, watched, plane = Turn(name=kind.name), Watched(), stage.plane
            await _settle(plane.processes()["kube-apiserver"])

            def look() -> None:
                plane.refuse_unless_runs()
                own = dict(zip(OWN, (psutil.Process(kubelets.process.pid), psutil.Process()), strict=True))
                watched.look({**contender.processes(), **plane.processes(), **own})

            before = requests_by_kind(plane.audit)
            submitting = asyncio.create_task(contender.submit(jobs))
            await _until_all(kubelets, "bound", jobs, patience_s, look)
            sent = requests_by_kind(plane.audit) - before
            await _until_all(kubelets, "running", jobs, patience_s, look)
            _finish(turn, await submitting, kubelets, watched)
            turn.requests = _by_user(sent)
            turn.restarts = contender.restarts
            turn.decided_ms = _decided_ms(await contender.decided_ms(), kubelets)
        finally:
            await contender.stop()
        return turn


async def _settle(process: psutil.Process) -> None:
    """Wait for the API server to be done with the kinds that a contender brings: their schemas take it seconds."""
    quiet = 0
    for _ in range(SETTLE_S):
        before = process.cpu_times()
        await asyncio.sleep(1.0)
        after = process.cpu_times()
        used_s = after.user + after.system - before.user - before.system
        quiet = quiet + 1 if used_s < BUSY_S else 0
        if quiet == QUIET_SECONDS:
            return
    print(f"  the API server was not quiet within {SETTLE_S} s", flush=True)


async def _until_all(kubelets: Kubelets, what: str, jobs: int, patience_s: float, look: Callable[[], None]) -> None:
    deadline = time.monotonic() + patience_s
    report = time.monotonic() + REPORT_S
    while len(kubelets.times.last[what]) < jobs:
        if time.monotonic() > deadline:
            print(f"  only {len(kubelets.times.last[what])} of {jobs} {what} after {patience_s:g} s", flush=True)
            return
        if time.monotonic() > report:
            print(f"  {len(kubelets.times.last[what])} of {jobs} {what}", flush=True)
            report += REPORT_S
        look()
        await asyncio.sleep(LOOK_S)
        kubelets.read()


def _finish(turn: Turn, submitted_s: Mapping[str, float], kubelets: Kubelets, watched: Watched) -> None:
    bound = kubelets.times.last["bound"].values()
    turn.placed = len(bound)
    turn.seconds = max(each.at_s for each in bound) - min(submitted_s.values()) if bound else 0.0
    turn.waited_ms = sorted(1_000 * (each.at_s - submitted_s[each.job]) for each in bound)
    turn.rss_mib, turn.cpu_s = watched.rss_mib, watched.cpu_s
    turn.load = os.getloadavg()[0]


def _by_user(sent: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (user, kind), count in sorted(sent.items()):
        found.setdefault(user, {})[kind] = count
    return found


def _decided_ms(decided_ms: Mapping[str, int], kubelets: Kubelets) -> list[float]:
    running = kubelets.times.last["running"].values()
    return [1_000 * each.at_s - decided_ms[each.job] for each in running if each.job in decided_ms]

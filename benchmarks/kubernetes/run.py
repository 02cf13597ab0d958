"""Scale on a control plane without kubelets: Steepest's Kubernetes adapter beside the default scheduler, in turn.

Each turn has a new control plane with as many bare nodes. Its fake kubelets say that a bound pod runs, and the pods go on
running until all are bound, so that what is remembered grows to the whole number. *Placements a second* is the number of
jobs over the time from the first submission to the last binding that the fake kubelets have seen. *Decision to running* is
from ``PlacementPlanned`` in the log to the API server's answer that the pod runs. Requests are counted in the API server's
audit log, from the first submission to the last binding.

Run: ``make bench-kubernetes NODES=1000 JOBS=10000 PAIRS=1``. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
from benchmarks.kubernetes import control_plane
from benchmarks.kubernetes.audit_log import requests_by_kind
from benchmarks.kubernetes.bare_cluster import BareCluster
from benchmarks.kubernetes.contenders import ACTING, DefaultScheduler, SteepestServices
from benchmarks.kubernetes.control_plane import ADMIN, ControlPlane, free_ports
from benchmarks.kubernetes.fake_kubelets import END, LINES, PodTime

from steepest.events import cluster as c

MIB = 1 << 20
LOOK_S = 0.5
MEASURING = "get nodes/proxy"
"""What is sent to measure use: so many a second, whether anything is placed or not."""

REPORT_S = 30.0


class Turn(msgspec.Struct, kw_only=True):
    """What was measured of one contender once.

    Attributes:
        name: The contender.
        placed: Pods bound.
        seconds: From the first submission to the last binding.
        waited_ms: From the first submission to each binding, in milliseconds.
        decided_ms: From each decision to its pod's running, in milliseconds.
        requests: What Steepest's services have sent until the last binding, by service and kind.
        rss_mib: The largest memory of each process seen.
        cpu_s: The processor time that each process used from the first submission to the last binding.
        load: The machine's load average over a minute, at the end.
        restarts: How often a service of Steepest's was stuck and was started again.
    """

    name: str
    placed: int = 0
    seconds: float = 0.0
    waited_ms: list[float] = []
    decided_ms: list[float] = []
    requests: dict[str, dict[str, int]] = {}
    rss_mib: dict[str, int] = {}
    cpu_s: dict[str, float] = {}
    load: float = 0.0
    restarts: int = 0

    @property
    def per_s(self) -> float:
        """Placements a second."""
        return self.placed / self.seconds if self.seconds else 0.0

    @property
    def per_placement(self) -> float:
        """Requests of Steepest's for each placement, without those that measure use."""
        sent = sum(count for kinds in self.requests.values() for kind, count in kinds.items() if kind != MEASURING)
        return sent / self.placed if self.placed else 0.0


class Kubelets:
    """The fake kubelets' process, and what it has written so far.

    Attributes:
        times: By what happened, by pod.
    """

    def __init__(self, kubeconfig: Path, folder: Path, port: int) -> None:
        self._folder = folder
        folder.mkdir()
        with (folder / "kubelets.log").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.kubernetes.fake_kubelets", str(kubeconfig), str(folder), str(port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.times: dict[str, dict[str, PodTime]] = {"bound": {}, "running": {}, "ended": {}}
        self._at = 0

    def read(self) -> None:
        """Read what was written since.

        Raises:
            RuntimeError: The process has ended.
        """
        if self.process.poll() is not None:
            raise RuntimeError(f"the kubelets have ended: {(self._folder / 'kubelets.log').read_text()[-2_000:]}")
        path = self._folder / LINES
        if not path.exists():
            return
        with path.open("rb") as lines:
            lines.seek(self._at)
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                self._at += len(line)
                found = msgspec.json.decode(line, type=PodTime)
                self.times[found.what][found.uid] = found

    def let_end(self) -> None:
        """Let all pods succeed."""
        (self._folder / END).touch()

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


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
async def bare_cluster(
    programs: Path, folder: Path, nodes: int
) -> AsyncIterator[tuple[ControlPlane, BareCluster, Kubelets]]:
    """A new control plane with its nodes and their kubelets."""
    with control_plane.running(programs, folder / "plane", ACTING) as plane:
        (port,) = free_ports(1)
        kubelets = Kubelets(plane.kubeconfig(ADMIN), folder / "kubelets", port)
        cluster = BareCluster(plane.kubeconfig(ADMIN))
        try:
            await cluster.make(nodes, port)
            yield plane, cluster, kubelets
        finally:
            await cluster.close()
            kubelets.stop()


async def default_turn(programs: Path, folder: Path, nodes: int, jobs: int, patience_s: float) -> Turn:
    """The default scheduler."""
    async with bare_cluster(programs, folder, nodes) as (plane, cluster, kubelets):
        turn, watched = Turn(name="default"), Watched()
        submitting = asyncio.create_task(DefaultScheduler(cluster).submit(jobs))
        await _until_all(kubelets, "bound", jobs, patience_s, lambda: watched.look(_all(plane, kubelets)))
        _finish(turn, await submitting, kubelets, watched)
        return turn


async def steepest_turn(programs: Path, folder: Path, nodes: int, jobs: int, patience_s: float) -> Turn:
    """Steepest."""
    async with bare_cluster(programs, folder, nodes) as (plane, _, kubelets):
        services = SteepestServices(folder, plane, nodes)
        try:
            await services.start()
            turn, watched = Turn(name="steepest"), Watched()

            def look() -> None:
                plane.refuse_unless_runs()
                watched.look({**services.processes(), **_all(plane, kubelets)})

            before = requests_by_kind(plane.audit)
            submitting = asyncio.create_task(services.submit(jobs))
            await _until_all(kubelets, "bound", jobs, patience_s, look)
            sent = requests_by_kind(plane.audit) - before
            await _until_all(kubelets, "running", jobs, patience_s, look)
            _finish(turn, await submitting, kubelets, watched)
            turn.requests = _by_user(sent)
            turn.restarts = services.restarts
            turn.decided_ms = _decided_ms(await services.events(), kubelets)
        finally:
            await services.stop()
        return turn


async def _until_all(kubelets: Kubelets, what: str, jobs: int, patience_s: float, look: Any) -> None:
    deadline = time.monotonic() + patience_s
    report = time.monotonic() + REPORT_S
    while len(kubelets.times[what]) < jobs:
        if time.monotonic() > deadline:
            print(f"  only {len(kubelets.times[what])} of {jobs} {what} after {patience_s:g} s", flush=True)
            return
        if time.monotonic() > report:
            print(f"  {len(kubelets.times[what])} of {jobs} {what}", flush=True)
            report += REPORT_S
        look()
        await asyncio.sleep(LOOK_S)
        kubelets.read()


def _all(plane: ControlPlane, kubelets: Kubelets) -> dict[str, psutil.Process]:
    return {
        **plane.processes(),
        "(fake kubelets)": psutil.Process(kubelets.process.pid),
        "(benchmark)": psutil.Process(),
    }


def _finish(turn: Turn, began_s: float, kubelets: Kubelets, watched: Watched) -> None:
    bound = sorted(each.at_s for each in kubelets.times["bound"].values())
    turn.placed = len(bound)
    turn.seconds = bound[-1] - began_s if bound else 0.0
    turn.waited_ms = [1000 * (at_s - began_s) for at_s in bound]
    turn.rss_mib, turn.cpu_s = watched.rss_mib, watched.cpu_s
    turn.load = os.getloadavg()[0]


def _by_user(sent: Counter[tuple[str, str]]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (user, kind), count in sorted(sent.items()):
        found.setdefault(user, {})[kind] = count
    return found


def _decided_ms(events: list[Any], kubelets: Kubelets) -> list[float]:
    planned_ms: dict[str, int] = {}
    for received in events:
        if isinstance(received.event, c.PlacementPlanned):
            planned_ms.setdefault(received.event.job, received.at_ms)
    running = {each.uid: each.at_s for each in kubelets.times["running"].values()}
    jobs = {uid: each.job for uid, each in kubelets.times["running"].items()}
    return [1000 * at_s - planned_ms[jobs[uid]] for uid, at_s in running.items() if jobs[uid] in planned_ms]


def spread(values: list[float]) -> dict[str, float | None]:
    """The median and the 99th percentile."""
    if len(values) <= 1:
        return {"p50": None, "p99": None}
    return {"p50": round(statistics.median(values)), "p99": round(statistics.quantiles(values, n=100)[98])}


def _print(turn: Turn, jobs: int) -> None:
    waited = spread(turn.waited_ms)
    print(
        f"{turn.name}: {turn.placed} of {jobs} bound in {turn.seconds:.1f} s, {turn.per_s:.1f} a second; first submission to"
        f" binding p50 {waited['p50']} ms, p99 {waited['p99']} ms; load {turn.load:.1f}",
        flush=True,
    )
    if turn.decided_ms:
        print(
            f"  decision to running: {spread(turn.decided_ms)} ms; {turn.per_placement:.2f} requests a placement;"
            f" {turn.restarts} restarts"
        )
    for user, kinds in turn.requests.items():
        print(
            f"  {user}: {', '.join(f'{kind} {count}' for kind, count in sorted(kinds.items(), key=lambda one: -one[1]))}"
        )
    for name, mib in sorted(turn.rss_mib.items(), key=lambda one: -turn.cpu_s[one[0]]):
        print(f"  {name:24} {mib:6} MiB {turn.cpu_s[name]:8.1f} s of CPU")
    sys.stdout.flush()


def result(turns: list[Turn], nodes: int, jobs: int) -> dict[str, Any]:
    """The last line: of several turns the median of each figure, and the most memory."""
    ours = [turn for turn in turns if turn.name == "steepest"]
    default = [turn for turn in turns if turn.name == "default"]
    plane = {*control_plane.PROGRAMS, "(fake kubelets)", "(benchmark)"}
    services = sorted({name for turn in ours for name in turn.rss_mib if name not in plane})
    return {
        "nodes": nodes,
        "jobs": jobs,
        "placements_s": round(statistics.median(turn.per_s for turn in ours), 1),
        "default_s": round(statistics.median(turn.per_s for turn in default), 1) if default else None,
        "decision_running_ms": spread([one for turn in ours for one in turn.decided_ms]),
        "api_requests_per_placement": round(statistics.median(turn.per_placement for turn in ours), 2),
        "rss_mib": {name: max(turn.rss_mib.get(name, 0) for turn in ours) for name in services},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=1, help="So many turns of each, in turn.")
    parser.add_argument("--patience", type=float, default=3_600.0, help="The most seconds that a turn may take.")
    parser.add_argument("--programs", type=Path, default=Path(".kubernetes/bin"))
    parser.add_argument("--keep", type=Path, help="Keep every turn's logs in this folder.")
    parser.add_argument("--only", choices=("steepest", "default"))
    given = parser.parse_args()
    if why := control_plane.missing(given.programs):
        print(f"skipped: {why}; get it with: make kubernetes-programs")
        return
    turns: list[Turn] = []
    with tempfile.TemporaryDirectory(prefix="steepest-scale-") as name:
        top = given.keep or Path(name)
        for number in range(given.pairs):
            for kind, take in (("default", default_turn), ("steepest", steepest_turn)):
                if given.only in {None, kind}:
                    folder = top / f"{kind}-{number}"
                    folder.mkdir(parents=True)
                    turn = asyncio.run(take(given.programs, folder, given.nodes, given.jobs, given.patience))
                    _print(turn, given.jobs)
                    turns.append(turn)
    print(f"{os.cpu_count()} cores")
    if any(turn.name == "steepest" for turn in turns):
        print(json.dumps(result(turns, given.nodes, given.jobs)))


if __name__ == "__main__":
    main()

"""Every panel's queries are answered, and not with nothing, by a real Prometheus that scrapes a pool in which all happens.

The pool is one of nodes in memory with the real services: trainings are placed, learn, are moved to and fro, limited,
suspended, resumed and finish; a step of a move fails, a plan is void, and one that is found to hang is started again.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.harness.system.fake_cluster import When, refuse
from tests.harness.system.rig import Rig, RigProcess
from tests.harness.waiting import until

from steepest.app.settings.tree import MetricsSettings, NotifySettings, Settings
from steepest.clock import SystemClock
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import FlowConParameters, PoolParameters, PreemptionLimits, SpeConParameters
from steepest.runtime.monitoring.probe import Address, probes
from tools.monitoring.dashboards import generated

from .faults import MEASURED
from .prometheus_server import RULES, PrometheusServer

SERVICES = (
    "worker-monitor",
    "categorizer",
    "placer",
    "node-scorer",
    "rebalancer",
    "limit-planner",
    "migrator",
    "resizer",
    "log-collector",
)
LOOK_S = 1.0
LOOKS = 60
"""How often the queries are asked again: the newest samples are a scrape old, and machines are busy."""

SLOW = ("--steps", "1000000", "--step-s", "0.1", "--flat-after", "30", "--burn")
PATIENCE_S = 120.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning"),  # by Apprise
]


def queries() -> Iterator[tuple[str, str, str]]:
    """Dashboard, panel and expression of every target of the committed files, with values for the variables."""
    for path in generated():
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", ()):
                expression = target["expr"].replace("$__rate_interval", "20s").replace("$__range", "10m")
                for variable in ("$pool", "$node", "$job_name"):
                    expression = expression.replace(variable, ".+")
                assert "$" not in expression
                yield path.stem, panel["title"], expression


def is_empty(series: list[dict[str, Any]]) -> bool:
    """Whether there is nothing to draw: no series, or none that has a number at any time."""
    return not any(math.isfinite(float(value)) for one in series for _, value in one["values"])


class Pool:
    """A pool in which a test lets everything happen."""

    def __init__(self, rig: Rig, process: RigProcess) -> None:
        self.rig = rig
        self.process = process

    def job(self, name: str) -> Any:
        """The job, or None."""
        return self.process.view.jobs.get(name)

    async def run(self, name: str, node: str, *arguments: str) -> None:
        """Let a job train."""
        await self.rig.submit(name, *(arguments or SLOW), node=node, cpu_m=100)
        await self.wait(lambda: (job := self.job(name)) and job.alive and job.declared_mode, f"{name} runs")

    async def wait(self, condition: Any, what: str) -> None:
        """Wait for a change of the view."""
        await until(condition, what, within_s=PATIENCE_S)

    async def plan(self, event: Any, status: str) -> None:
        """Append a plan, and wait for its end."""
        await self.rig.append(event)

        def is_over() -> bool:
            plan = self.process.view.plan(event.plan)
            return plan is not None and plan.status.value == status

        await self.wait(is_over, f"{event.plan} {status}")

    def move(self, name: str, source: str, target: str, plan: str, kind: c.MoveKind) -> c.MigrationPlanned:
        """A move by a rule."""
        because = c.Because(rule="a test says so")
        incarnation = self.job(name).incarnation
        return c.MigrationPlanned(
            plan=plan, job=name, incarnation=incarnation, source=source, target=target, kind=kind, because=because
        )


async def let_everything_happen(pool: Pool) -> None:
    """Each thing that a panel is about, at least once."""
    because = c.Because(rule="a test says so")
    for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2")):
        await pool.run(name, node)
    await pool.wait(lambda: all(pool.job(name).measured for name in "abc"), "growth is measured")
    await pool.wait(
        lambda: any(job.limit and job.limit.in_force_m for job in pool.process.view.jobs), "a limit in force"
    )
    await pool.plan(pool.move("a", "n1", "n2", "move-1", c.MoveKind.REALLOCATION), "finished")
    await pool.plan(pool.move("a", "n2", "n1", "move-2", c.MoveKind.REBALANCE), "finished")
    pool.process.cluster.hook("checkpoint", When.BEFORE, refuse, refuse)
    await pool.plan(pool.move("b", "n1", "n2", "move-3", c.MoveKind.REALLOCATION), "failed")
    suspension = c.TransitionPlanned(
        plan="suspend-1",
        job="c",
        incarnation=pool.job("c").incarnation,
        kind=c.Transition.SUSPEND,
        sources=pool.job("c").nodes,
        because=because,
    )
    await pool.plan(suspension, "finished")
    await pool.wait(lambda: pool.job("c").resumptions, "c is resumed")
    void = c.PlacementPlanned(plan="void-1", job="a", incarnation=0, nodes=("n1",), because=because)
    await pool.plan(void, "void")
    spec = c.JobSpec(command=(*MEASURED, "--flat-after", "150"), requests=Resources(cpu_m=100), steps=150)
    await pool.rig.append(c.JobSubmitted(job="short", request="short", spec=spec))
    await pool.wait(lambda: (job := pool.job("short")) and job.outcome, "a job finishes")
    about = {"job": "b", "incarnation": pool.job("b").incarnation, "kind": c.FindingKind.HUNG}
    await pool.rig.append(
        c.FindingOpened(**about, why="no step"), c.ReactionPlanned(**about, restarts=True, reason="hung: no step")
    )
    await pool.wait(lambda: pool.job("b").incarnation > about["incarnation"], "b is started again")


async def test_every_panel_has_something_to_show(tmp_path: Path, figures: dict[str, float]) -> None:
    """No query is refused, and none is empty."""
    targets = tmp_path / "targets.toml"
    targets.write_text('[ops]\nurl = "json://127.0.0.1:1"\n')
    targets.chmod(0o600)
    settings = Settings(metrics=MetricsSettings(jobs=10), notify=NotifySettings(file=str(targets)))
    async with AsyncExitStack() as rigs:
        rig = await rigs.enter_async_context(
            aclosing(Rig(tmp_path / "rig", {"n1": 1_000, "n2": 1_000}, clock=SystemClock(), settings=settings))
        )
        specon = SpeConParameters(interval_ms=500, guard=False)
        await rig.configure(
            PoolParameters(
                tick_ms=250,
                specon=specon,
                flowcon=FlowConParameters(on=True, interval_ms=500),
                preemption=PreemptionLimits(min_run_ms=0),
            )
        )
        process = rig.start(*SERVICES)
        with ExitStack() as doors:
            at = doors.enter_context(probes(process.runtime, Address(0)))
            server = PrometheusServer(tmp_path / "prometheus", {"demo": f"127.0.0.1:{at.port}"}, RULES.read_text())
            doors.callback(server.stop)
            await scraped_twice(server)
            since_s = time.time()
            await let_everything_happen(Pool(rig, process))
            empty = dict.fromkeys(queries(), "")
            for _ in range(LOOKS):
                await asyncio.sleep(LOOK_S)
                empty = {each: await asyncio.to_thread(asked, server, each[2], since_s) for each in empty}
                empty = {each: why for each, why in empty.items() if why}
                if not empty:
                    break
            text = await asyncio.to_thread(scraped, at.port)
    panels = {(dashboard, panel) for dashboard, panel, _ in queries()}
    figures["panels"], figures["empty"] = len(panels), len({(board, panel) for board, panel, _ in empty})

    assert empty == {}
    assert 'job_name="a"' in text


async def scraped_twice(server: PrometheusServer) -> None:
    """Wait until Prometheus has two samples, so that it sees every counter rise."""
    for _ in range(LOOKS):
        if await asyncio.to_thread(server.is_ready):
            found = await asyncio.to_thread(server.query, "count_over_time(steepest_pool_info[1m]) >= 2")
            if found:
                return
        await asyncio.sleep(LOOK_S)
    pytest.fail("Prometheus has scraped nothing")


def asked(server: PrometheusServer, expression: str, since_s: float) -> str:
    """Why an expression shows nothing since then; empty where it does."""
    try:
        return "empty" if is_empty(server.course(expression, since_s, time.time())) else ""
    except ValueError as error:
        return str(error)


def scraped(port: int) -> str:
    """All metrics, as text."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        return bytes(answer.read()).decode()


def test_an_empty_answer_is_found() -> None:
    """No series, and series without a number."""
    assert is_empty([])
    assert is_empty([{"values": [[0, "NaN"]]}])
    assert not is_empty([{"values": [[0, "NaN"]]}, {"values": [[0, "NaN"], [1, "0"]]}])

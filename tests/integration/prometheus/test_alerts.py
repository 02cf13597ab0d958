"""Every alert fires on a real Prometheus when its fault is caused, and none about a system that works.

The rules are those of the project with shorter times: a fault of minutes is a fault of seconds here.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack, ExitStack, aclosing
from pathlib import Path

import pytest
from tests.harness.system.rig import Rig

from steepest.clock import SystemClock

from .faults import FAULTS, Scene, healthy
from .prometheus_server import RULES, PrometheusServer

SHORTER = 30
"""The rules' times are divided by this."""

SECONDS = {"s": 1, "m": 60, "h": 3_600}
PATIENCE_S = 240.0
"""An alert about half a minute of silence takes that long."""

BY_TOPIC = {"SteepestDeadLetters"}
"""Alerts that are about a topic, and name no instance."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def shorter(rules: str) -> str:
    """The rules with every range and every `for` shorter; thresholds stay as they are."""

    def divided(match: re.Match[str]) -> str:
        return f"{match[1]}{max(1, int(match[2]) * SECONDS[match[3]] // SHORTER)}s"

    return re.sub(r"(\[|for: )(\d+)([smh])\b", divided, rules)


def test_times_are_shorter_and_names_stay() -> None:
    """A name that ends in its window keeps it."""
    assert shorter("rate1h: rate(x[1h])\n for: 1m") == "rate1h: rate(x[120s])\n for: 2s"


async def test_each_alert_fires_when_its_fault_is_caused(tmp_path: Path, figures: dict[str, float]) -> None:
    """All faults at the same time, each in a system of its own, beside one that works."""
    expected = {(name, "" if name in BY_TOPIC else name) for name in FAULTS}
    fired: set[tuple[str, str]] = set()
    async with AsyncExitStack() as rigs, asyncio.TaskGroup() as group:
        with ExitStack() as doors:
            targets, scenes = {}, []
            for name in ("healthy", *FAULTS):
                rig = Rig(tmp_path / name, {"n1": 1_000, "n2": 1_000}, clock=SystemClock())
                scenes.append(Scene(await rigs.enter_async_context(aclosing(rig)), doors, group))
                targets[name] = await FAULTS.get(name, healthy)(scenes[-1])
            server = PrometheusServer(tmp_path / "prometheus", targets, shorter(RULES.read_text()))
            doors.callback(server.stop)
            give_up_at = SystemClock().monotonic() + PATIENCE_S
            while not expected <= fired and SystemClock().monotonic() < give_up_at:
                await asyncio.sleep(1)
                if await asyncio.to_thread(server.is_ready):
                    fired |= await asyncio.to_thread(server.firing)
        for scene in scenes:
            scene.end()
    figures["alerts"], figures["fired"] = len(FAULTS), len(FAULTS.keys() & {name for name, _ in fired})

    assert expected - fired == set()
    # A machine that is overloaded may miss scrapes, of any target.
    assert {name for name, about in fired if about == "healthy"} <= {"SteepestDown"}

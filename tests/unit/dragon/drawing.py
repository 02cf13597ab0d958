"""A cluster as a drawing, and what the gang-scheduler plans in it.

    w1: A a a .        a line a node: a letter a place, a capital a parameter server, a dot a free place
    w2: a . . .
    a 1-4              the roles of a job: its workers, from the fewest to the most
    ? b 2-3-4          a job that waits: fewest, named and most workers; ``ps`` with a parameter server, ``for 31``
                       seconds; ``fixed``: it cannot be checkpointed; ``loose``: its workers may leave without a restart

Running jobs start in the order of their letters; waiting ones are submitted in theirs, after those that run.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
from tests.harness.scenarios.folded_pool import FoldedPool, placement, submitted
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.parameters import PoolParameters
from steepest.policies.dragon.gang_scheduler import GangScheduler
from steepest.policies.dragon.running_gangs import DragonState
from steepest.policies.named import under

PLACE_M = 100
TICK_MS = 1_000
LONG_S = 70
"""What passes before anything runs."""


def drawn(drawing: str, policy: str, *, idle_s: int = 0, **switches: Any) -> DeciderDriver:
    """The cluster of a drawing, before the first record that the gang-scheduler sees.

    Args:
        drawing: See above.
        policy: A name of :data:`steepest.policies.named.POLICIES`.
        idle_s: For how long the gang-scheduler has done nothing.
        switches: Parameters of DRAGON that differ from the policy's.
    """
    lines = [line.strip() for line in drawing.splitlines() if line.strip()]
    rows = {line.split(":")[0]: line.split(":")[1].split() for line in lines if ":" in line}
    roles = {line.split()[0]: line.split()[1:] for line in lines if ":" not in line and not line.startswith("?")}
    waiting = sorted(
        (line.split()[1:] for line in lines if line.startswith("?")), key=lambda words: (-_waited_s(words), words)
    )
    scene = FoldedPool(**{name: PLACE_M * len(places) for name, places in rows.items()})
    parameters = under(policy, PoolParameters())
    parameters = msgspec.structs.replace(parameters, dragon=msgspec.structs.replace(parameters.dragon, **switches))
    scene.fold(c.PoolConfigured(parameters=parameters))
    _pass_time(scene, LONG_S)
    for name in sorted({place.lower() for place in itertools.chain(*rows.values())} - {"."}):
        servers = [row for row, places in rows.items() for place in places if place == name.upper()]
        workers = [row for row, places in rows.items() for place in places if place == name]
        _run(scene, name, servers, workers, roles.get(name, [f"1-{len(workers)}"]))
    longest = max((_waited_s(words) for words in waiting), default=0)
    for name, *rest in waiting:
        _pass_time(scene, longest - _waited_s(rest))
        longest = _waited_s(rest)
        sizes = [int(size) for size in rest[0].split("-")]
        _submit(scene, name, int("ps" in rest), (sizes[0], sizes[len(sizes) // 2], sizes[-1]), rest)
    _pass_time(scene, longest)
    acted = max(0, scene.view.counted_ms - 1_000 * idle_s)
    driver = DeciderDriver(GangScheduler())
    driver.log, driver.now_ms = scene.log, scene.now_ms
    driver.restore(scene.view, [GangScheduler(DragonState(acted_counted_ms=acted))])
    return driver


def planned(drawing: str, policy: str, *, idle_s: int = 0, **switches: Any) -> list[str]:
    """What the gang-scheduler plans in a drawing at the next tick."""
    driver = drawn(drawing, policy, idle_s=idle_s, **switches)
    return [spell(event) for event in driver.ask(c.Tick(counted_ms=driver.view.counted_ms + TICK_MS))]


def spell(event: c.ClusterEvent) -> str:
    """A decision in short: the node of each replica behind its job."""
    match event:
        case c.PlacementPlanned():
            return f"place {event.job} {' '.join(event.nodes)}" + " later" * bool(event.after)
        case c.TransitionPlanned():
            return f"{event.kind} {event.job} {' '.join(event.nodes)}" + (
                f" for {event.room_for}" * bool(event.room_for)
            )
        case c.JobRejected():
            return f"reject {event.job}"
    return type(event).__name__


def _waited_s(words: list[str]) -> int:
    return int(words[words.index("for") + 1]) if "for" in words else 0


def _pass_time(scene: FoldedPool, seconds: int) -> None:
    for _ in range(seconds):
        scene.tick(TICK_MS)


def _run(scene: FoldedPool, name: str, servers: list[str], workers: list[str], rest: list[str]) -> None:
    fewest, most = map(int, rest[0].split("-"))
    _submit(scene, name, len(servers), (fewest, min(most, len(workers)), most), rest)
    sizes = (len(servers), len(workers)) if servers else (len(workers),)
    scene.fold(placement(name, *servers, *workers, sizes=sizes))
    scene.carry_out(name)


def _submit(scene: FoldedPool, name: str, servers: int, sizes: tuple[int, int, int], words: Sequence[str]) -> None:
    requests = Resources(cpu_m=PLACE_M)
    roles = [c.Role(name="ps", replicas=servers, requests=requests)] if servers else []
    loose = "loose" in words
    fewest, named, most = sizes
    roles.append(c.Role(name="worker", replicas=named, min=fewest, max=most, requests=requests, may_leave=loose))
    mode = CheckpointMode.NONE if "fixed" in words else CheckpointMode.ON_REQUEST
    success = c.SuccessRule.CHIEF if loose else c.SuccessRule.ALL
    scene.fold(submitted(name, PLACE_M, mode, roles=tuple(roles), success=success))

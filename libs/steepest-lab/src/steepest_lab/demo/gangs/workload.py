"""The demo's workload under DRAGON: two equal nodes, and more distributed trainings than they hold. Pure.

It owns sizes and times, which were chosen so that a run shows all that DRAGON does and ends within three minutes on two
cores: gangs queue, start whole, shrink for one that starves, and grow once the queue is empty. It must never know how jobs
are run.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping

import msgspec

from steepest.app.state_folder import NodeSpec
from steepest.events.cluster import JobSpec, Role, SuccessRule
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, QueueParameters
from steepest.policies.named import POLICIES
from steepest_lab.demo.workload import (
    CORES,
    GAP_S,
    JOBS,
    LENGTH_VARIES,
    START_CORE_S,
    Arrival,
    DemoWorkload,
    parameters,
)

NODES, NODE_M = 2, 800
"""As many worker nodes as in the authors' test bed; together they have 80 % of two cores."""

WORKER_M, SERVER_M = 100, 50
WORKERS, FEWEST, MOST = 3, 1, 5
"""Of each gang: a node holds two gangs as they are named, and four or five of the fewest."""

LINK_MBIT = 100
"""A worker's exchange of a step takes 50 ms over it, about as long as the step."""

STEP_CORE_MS = 24.0
STEPS = 450

TIME_SCALE = 5
"""Divisor of DRAGON's waits in its authors' programs, because trainings are shorter here."""


class GangRecipe(msgspec.Struct, frozen=True):
    """A kind of distributed training.

    Attributes:
        model: What it trains, in words.
        module: Its module in ``steepest_lab.jobs``, and its options.
        has_server: Whether its first replica is a parameter server.
        length: Of its training, relative to the usual one.
    """

    model: str
    module: tuple[str, ...]
    has_server: bool = True
    length: float = 1.0


_SERVER = "gangs.parameter_server"

GANGS: Mapping[str, GangRecipe] = {
    "sync": GangRecipe("server, synchronous", (_SERVER,)),
    "async": GangRecipe("server, asynchronous", (_SERVER, "--asynchronous")),
    "reduce": GangRecipe("all-reduce", ("parallel",), has_server=False),
    "long": GangRecipe("server, synchronous", (_SERVER,), length=2.0),
}

LINE_UP = ("sync", "reduce", "async", "sync", "long", "reduce", "async", "sync", "reduce", "sync", "async", "long")
"""Kinds in the order of their arrival."""


def is_for(policy: str) -> bool:
    """Whether a policy is shown with gangs."""
    return POLICIES[policy].dragon.on


def gang_parameters(policy: str) -> PoolParameters:
    """The pool's parameters under one of DRAGON's variants."""
    plain = msgspec.structs.replace(parameters(policy), queueing=QueueParameters())
    dragon = plain.dragon
    return msgspec.structs.replace(
        plain,
        dragon=msgspec.structs.replace(
            dragon,
            starving_ms=dragon.starving_ms // TIME_SCALE,
            idle_ms=dragon.idle_ms // TIME_SCALE,
            period_ms=dragon.period_ms // TIME_SCALE,
        ),
    )


def gang_workload(
    seed: int, cores: int, jobs: int = JOBS, length: float = 1.0, link_mbit: int | None = None
) -> DemoWorkload:
    """Gangs and nodes; see :func:`steepest_lab.demo.workload.workload`.

    Args:
        seed: Draws the times, the lengths, and each training's own seed.
        cores: What the machine has.
        jobs: How many; beyond the end of the list, it starts from its beginning.
        length: Of every training, relative to its recipe's.
        link_mbit: The rate of the nodes' links, in Mbit/s; None: they have none.
    """
    rng = random.Random(seed)  # noqa: S311 - a workload is no secret
    share = min(cores, CORES) / CORES
    at_s = 0.0
    arrivals: list[Arrival] = []
    for place in range(jobs):
        kind = LINE_UP[place % len(LINE_UP)]
        number = 1 + sum(arrival.kind == kind for arrival in arrivals)
        arrivals.append(_arrival(kind, number, at_s, rng, length=length, share=share))
        at_s = round(at_s + rng.uniform(*GAP_S), 1)
    nodes = tuple(NodeSpec(f"n{number}", Resources(cpu_m=int(NODE_M * share))) for number in range(1, NODES + 1))
    return DemoWorkload(nodes=nodes, arrivals=tuple(arrivals), link_mbit=link_mbit)


def _arrival(kind: str, number: int, at_s: float, rng: random.Random, *, length: float, share: float) -> Arrival:
    recipe = GANGS[kind]
    steps = max(1, round(STEPS * recipe.length * length * rng.uniform(1 - LENGTH_VARIES, 1 + LENGTH_VARIES)))
    module, *options = recipe.module
    command = (
        *(sys.executable, "-m", f"steepest_lab.jobs.{module}", *options),
        *("--steps", str(steps), "--seed", str(rng.randrange(1000))),
    )
    is_asynchronous = "--asynchronous" in options
    workers = Role(
        name="worker",
        replicas=WORKERS,
        min=FEWEST,
        max=MOST,
        requests=Resources(cpu_m=int(WORKER_M * share)),
        may_leave=is_asynchronous,
    )
    server = Role(name="ps", requests=Resources(cpu_m=int(SERVER_M * share)))
    spec = JobSpec(
        command=command,
        model=recipe.model,
        requests=Resources(),
        roles=(server, workers) if recipe.has_server else (workers,),
        success=SuccessRule.CHIEF if is_asynchronous else SuccessRule.ALL,
    )
    return Arrival(
        at_s=at_s,
        job=f"{kind}-{number}",
        kind=kind,
        spec=spec,
        core_s=spec.world * START_CORE_S + steps * STEP_CORE_MS / 1000,
    )

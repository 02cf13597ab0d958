"""The demo's workload: uneven nodes, and trainings that arrive over time. Pure: one seed, one workload.

It owns sizes and times, which were tuned so that a run shows what its policies do and ends within three minutes on two
cores. It must never know how jobs are run or shown.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping

import msgspec

from steepest.app.state_folder import NodeSpec
from steepest.events.cluster import JobSpec, Role
from steepest.events.common import Resources
from steepest.events.parameters import (
    PRIORITY_CLASSES,
    FlowConParameters,
    PoolParameters,
    PreemptionLimits,
    QueueParameters,
    SpeConParameters,
    SteepestParameters,
)
from steepest.policies.named import under

CAPACITIES_M = (600, 450, 350, 200)
"""The nodes on two cores or more, in millicores: uneven, and 80 % of two cores together, so that an idle node is idle."""

CORES = 2
"""With fewer cores the nodes shrink in proportion, and the demo takes as much longer."""

JOBS = 12
REQUEST = Resources(cpu_m=50)
"""A job's reservation: little, so that the growth of jobs decides where they go, and not their requests."""

START_CORE_S = 0.2
"""CPU time that a job needs before its first step."""

DEFAULT = "steepest"
"""The policy of the demo."""

INTERVAL_MS = 2_000
TICK_MS = 500

PLAN_EVERY_MS = 1_000
SLOT_MS = 2_000
STAY_MS = 6_000
YOUNG_MS = 3_000
MOVE_COST_MS = 3_000
DWELL_MS = 10_000
"""The times of the policy ``steepest``, for jobs that train for a minute instead of an hour. Moves take 1 to 9 s here."""

GAP_S = (1.0, 3.0)
"""Between two arrivals."""

LENGTH_VARIES = 0.1
"""By how much of itself a job's number of steps differs from its recipe's at most."""


MIN_RUN_MS = 4_000
"""How long a job of the demo runs before it may be suspended."""

GANG_REQUEST = Resources(cpu_m=125)
"""Reservation of each replica of the gang: both together as much as the urgent job lacks on the largest node."""

URGENT_REQUEST = Resources(cpu_m=400)
"""More than is free on any node while the gang runs."""


class Recipe(msgspec.Struct, frozen=True):
    """A kind of job.

    Attributes:
        model: What it trains, in words.
        steps: Its usual length.
        step_core_ms: CPU time of a step, of all replicas together.
        replicas: How many processes train together.
        priority_class: How urgent it is; empty: as the others.
    """

    model: str
    steps: int
    step_core_ms: float
    replicas: int = 1
    requests: Resources = REQUEST
    priority_class: str = ""


RECIPES: Mapping[str, Recipe] = {
    "softmax": Recipe("logistic regression", 900, 9.6),
    "linear": Recipe("linear regression", 900, 9.0),
    "vae": Recipe("auto-encoder", 1050, 8.4),
    "gru": Recipe("recurrent network", 950, 8.6),
    "factorisation": Recipe("matrix factorisation", 1300, 6.4),
    "mixture": Recipe("Gaussian mixture", 1000, 8.6),
    "charlm": Recipe("language model", 1050, 8.4),
    "mlp": Recipe("perceptron", 1150, 7.2),
    "parallel": Recipe("perceptron, 2 processes", 400, 24.0, replicas=2, requests=GANG_REQUEST),
    "urgent": Recipe("logistic regression", 450, 9.6, requests=URGENT_REQUEST, priority_class="urgent"),
}
"""The kinds of job by their modules in ``steepest_lab.jobs``, or those of :data:`MODULES`. A step's CPU time is that of one
core of a server of 2020."""

MODULES = {"urgent": "softmax"}
"""The modules of the kinds that are not named after theirs."""

LINE_UP = (
    "softmax",
    "linear",
    "vae",
    "gru",
    "factorisation",
    "parallel",
    "charlm",
    "mlp",
    "mixture",
    "urgent",
    "vae",
    "softmax",
)
"""Kinds in the order of their arrival. ``spread`` puts the first, fourth and seventh on the largest node. One of them
cannot be checkpointed and converges soon, and two learn for long, so it requests another place and must stay."""


PRIORITIES = {named.name: named.priority for named in PRIORITY_CLASSES}


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """A job and when it is submitted.

    Attributes:
        at_s: Seconds from the beginning of the demo, or from the time when ``after`` jobs have ended.
        core_s: CPU time that it needs on the machine that the recipes were measured on.
        after: Number of jobs that end before it is submitted.
    """

    at_s: float
    job: str
    kind: str
    spec: JobSpec
    core_s: float
    after: int = 0


class DemoWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes, and jobs in the order of their arrival.

    Attributes:
        image: To run them in, where nodes are Docker engines.
        soft_limits: CPU limits are weights there, and no caps.
        storage: The address of the server that jobs stream their data from; empty: they have none.
        link_mbit: The rate of the links between emulated nodes, in Mbit/s; None: they have none.
    """

    nodes: tuple[NodeSpec, ...]
    arrivals: tuple[Arrival, ...]
    image: str = ""
    soft_limits: bool = False
    storage: str = ""
    link_mbit: int | None = None

    @property
    def core_s(self) -> float:
        """CPU time of all jobs together."""
        return sum(arrival.core_s for arrival in self.arrivals)


def parameters(policy: str = DEFAULT) -> PoolParameters:
    """The pool's parameters under a policy, on a time scale on which a training takes half a minute and not half a day."""
    plain = PoolParameters(
        tick_ms=TICK_MS,
        specon=SpeConParameters(interval_ms=INTERVAL_MS),
        flowcon=FlowConParameters(interval_ms=INTERVAL_MS),
        steepest=SteepestParameters(
            plan_every_ms=PLAN_EVERY_MS,
            slot_ms=SLOT_MS,
            stay_ms=STAY_MS,
            young_ms=YOUNG_MS,
            move_cost_ms=MOVE_COST_MS,
            dwell_ms=DWELL_MS,
        ),
        queueing=QueueParameters(policy="priority", preempt=True),
        preemption=PreemptionLimits(min_run_ms=MIN_RUN_MS),
    )
    return under(policy, plain)


def nodes(cores: int) -> tuple[NodeSpec, ...]:
    """Four nodes whose capacities are at most 80 % of the cores together."""
    share = _share(cores)
    return tuple(
        NodeSpec(f"n{number}", Resources(cpu_m=int(capacity_m * share)))
        for number, capacity_m in enumerate(CAPACITIES_M, 1)
    )


def _share(cores: int) -> float:
    return min(cores, CORES) / CORES


def workload(seed: int, cores: int, jobs: int = JOBS, length: float = 1.0) -> DemoWorkload:
    """The demo's workload.

    Args:
        seed: Draws the times, the lengths, and each training's own seed.
        cores: What the machine has.
        jobs: How many; beyond the end of the list, it starts from its beginning.
        length: Of every training, relative to its recipe's.
    """
    rng = random.Random(seed)  # noqa: S311 - a workload is no secret
    at_s = 0.0
    arrivals: list[Arrival] = []
    for place in range(jobs):
        kind = LINE_UP[place % len(LINE_UP)]
        number = 1 + sum(arrival.kind == kind for arrival in arrivals)
        arrivals.append(_arrival(kind, number, at_s, rng, length=length, share=_share(cores)))
        at_s = round(at_s + rng.uniform(*GAP_S), 1)
    return DemoWorkload(nodes=nodes(cores), arrivals=tuple(arrivals))


def pinned(given: DemoWorkload, places: Mapping[str, str]) -> DemoWorkload:
    """The same workload, in which each job starts on the node that ``places`` names for it."""
    arrivals = tuple(
        msgspec.structs.replace(arrival, spec=msgspec.structs.replace(arrival.spec, first_node=places.get(arrival.job)))
        for arrival in given.arrivals
    )
    return msgspec.structs.replace(given, arrivals=arrivals)


def _arrival(kind: str, number: int, at_s: float, rng: random.Random, *, length: float, share: float) -> Arrival:
    recipe = RECIPES[kind]
    requests = Resources(cpu_m=int(recipe.requests.cpu_m * share))
    steps = max(1, round(recipe.steps * length * rng.uniform(1 - LENGTH_VARIES, 1 + LENGTH_VARIES)))
    training_seed = rng.randrange(1000)
    module = f"steepest_lab.jobs.{MODULES.get(kind, kind)}"
    command = (sys.executable, "-m", module, "--steps", str(steps), "--seed", str(training_seed))
    spec = JobSpec(command=command, requests=requests, model=recipe.model)
    if recipe.replicas > 1:
        workers = Role(name="worker", replicas=recipe.replicas, requests=requests)
        spec = msgspec.structs.replace(spec, roles=(workers,), requests=Resources())
    if recipe.priority_class:
        spec = msgspec.structs.replace(
            spec, priority=PRIORITIES[recipe.priority_class], priority_class=recipe.priority_class
        )
    return Arrival(
        at_s=at_s,
        job=f"{kind}-{number}",
        kind=kind,
        spec=spec,
        core_s=recipe.replicas * START_CORE_S + steps * recipe.step_core_ms / 1000,
    )

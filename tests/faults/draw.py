"""Schedules by lot: a seed is a world, its jobs, what operators want of them, and faults.

Every kind of fault is drawn as often as any other, at a moment or at the beginning of a step; and every step of every kind
of plan as often as any other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from tests.faults.schedule import Deed, Schedule, When

JOBS = 30
FAULTS = 20
"""Drawn for each schedule; one whose moment never comes, or whose process is down, does not strike."""

OPERATIONS = 10
BEGIN_S = 1.0
END_S = 30.0

POINTS = (
    "place.start",
    "migrate.checkpoint", "migrate.stop", "migrate.start", "migrate.verify",
    "suspend.checkpoint", "suspend.stop",
    "scale.checkpoint", "scale.stop", "scale.start", "scale.verify",
    "move.checkpoint", "move.stop", "move.start", "move.verify",
    "cancel.stop", "clear.stop",
)  # fmt: skip
"""Steps of the plan machine at which faults are drawn."""

SERVICES = ("placer", "worker-monitor", "migrator")
"""One of each process of the topologies."""


def drawn(seed: int) -> Schedule:
    """The schedule of a seed."""
    rng = random.Random(seed)
    topology = rng.choice(("embedded", "split", "doubled", "shared"))
    pools = ("default", "blue") if topology == "shared" else ("default",)
    nodes = {f"n{number}": {"cpu": str(rng.choice((1000, 1500, 2000)))} for number in range(1, rng.randint(3, 5) + 1)}
    nodes |= {f"b{number}": {"cpu": "1500", "pool": "blue"} for number in range(1, 3) if len(pools) > 1}
    world = {
        "seed": str(seed),
        "topology": topology,
        "pools": ",".join(pools),
        "snapshots": rng.choice(("15", "60", "20000")),
        "placement": rng.choice(("spread", "spread", "flowcon2")),
    }
    jobs = [f"j{number}" for number in range(1, JOBS + 1)]
    gangs = [job for job in jobs if rng.random() < 0.2] or jobs[:1]
    deeds = [_job(rng, job, is_gang=job in gangs, pools=pools) for job in jobs]
    deeds += [_operation(rng, jobs, gangs, list(nodes)) for _ in range(OPERATIONS)]
    deeds += [_fault(rng, jobs, list(nodes)) for _ in range(FAULTS)]
    return Schedule(world, nodes, tuple(sorted(deeds, key=lambda deed: (bool(deed.when.point), deed.when.at_s))))


def _time(rng: random.Random) -> When:
    return When(round(rng.uniform(BEGIN_S, END_S), 3))


def _job(rng: random.Random, job: str, *, is_gang: bool, pools: Sequence[str]) -> Deed:
    options = {
        "steps": str(rng.randint(2, 12)),
        "cpu": str(rng.choice((100, 200, 300))),
        "mode": rng.choice(("on-request", "on-request", "on-stop", "none")),
    }
    if is_gang:
        options["replicas"] = str(rng.randint(2, 4))
        options |= {"fewest": "1"} if rng.random() < 0.5 else {}
    elif rng.random() < 0.2:
        options["learns"] = str(rng.randint(1, 4))
    if rng.random() < 0.15:
        options["priority"] = "10"
    if rng.random() < 0.2:
        options["save-s"] = "0.5"
    if (pool := rng.choice(pools)) != pools[0]:
        options["pool"] = pool
    return Deed(When(round(rng.uniform(0.1, END_S * 0.6), 3)), "submit", job, options)


def _operation(rng: random.Random, jobs: list[str], gangs: list[str], nodes: list[str]) -> Deed:
    verb = rng.choice(("move", "move", "suspend", "suspend", "scale", "scale", "gang-move", "gang-move", "cancel"))
    job = rng.choice(gangs if verb in {"scale", "gang-move"} else jobs)
    to = ",".join(rng.choice(nodes) for _ in range(4))
    options = {"move": {"to": rng.choice(nodes)}, "scale": {"to": to, "size": str(rng.randint(1, 5))}}
    return Deed(_time(rng), verb, job, options.get(verb, {"to": to} if verb == "gang-move" else {}))


# --- faults -------------------------------------------------------------------------------------------------------


def _fault(rng: random.Random, jobs: list[str], nodes: list[str]) -> Deed:
    verb = rng.choice(tuple(FAULT_KINDS))
    about, options = FAULT_KINDS[verb](rng, jobs, nodes)
    return Deed(_when(rng), verb.split("/")[0], about, options)


def _when(rng: random.Random) -> When:
    if rng.random() < 0.25:
        return _time(rng)
    point = rng.choice(POINTS)
    nth = rng.randint(1, 30) if point == "place.start" else 1 + int(rng.expovariate(1.0))
    return When(round(rng.choice((0.0, rng.uniform(0, 0.05), rng.uniform(0, 2))), 4), point, nth)


Target = Callable[[random.Random, list[str], list[str]], tuple[str, Mapping[str, str]]]


def _process(**options: Callable[[random.Random], object]) -> Target:
    def about(rng: random.Random, _jobs: list[str], _nodes: list[str]) -> tuple[str, Mapping[str, str]]:
        return rng.choice(SERVICES), {name: f"{draw(rng)}" for name, draw in options.items()}

    return about


def _caller(**options: Callable[[random.Random], object]) -> Target:
    def about(rng: random.Random, _jobs: list[str], _nodes: list[str]) -> tuple[str, Mapping[str, str]]:
        return "migrator", {name: f"{draw(rng)}" for name, draw in options.items()}

    return about


def _all(**options: Callable[[random.Random], object]) -> Target:
    return lambda rng, _jobs, _nodes: ("", {name: f"{draw(rng)}" for name, draw in options.items()})


def _node(rng: random.Random, _jobs: list[str], nodes: list[str]) -> tuple[str, Mapping[str, str]]:
    return rng.choice(nodes), {"for": _seconds(rng)}


def _crash(rng: random.Random, jobs: list[str], _nodes: list[str]) -> tuple[str, Mapping[str, str]]:
    how = rng.choice(("killed", "lost", "failed"))
    return rng.choice(jobs), {"how": how, "replica": str(rng.choice((0, 0, 0, 1, 2)))}


def _seconds(rng: random.Random) -> str:
    return f"{rng.choice((0.5, 2, 5, 12, 25)) * rng.uniform(0.8, 1.2):.2f}"


def _few(rng: random.Random) -> int:
    return rng.choice((1, 1, 2, 3))


def _jump(rng: random.Random) -> int:
    return rng.choice((-3_600_000, -20_000, -500, 500, 20_000, 3_600_000))


FAULT_KINDS: Mapping[str, Target] = {
    "kill": _process(down=_seconds),
    "kill/forget": _process(down=_seconds, snapshots=lambda _: "lost"),
    "stop": _process(down=_seconds),
    "upgrade": _process(down=_seconds, by=lambda _: 1),
    "power-loss": _all(down=_seconds, lost=lambda rng: rng.choice((1, 3, 10, 40))),
    "trim": _all(),
    "garbage": lambda rng, _jobs, _nodes: (rng.choice(("cluster", "loss", "heartbeats")), {}),
    "upgrade/roll-back": _process(down=_seconds, by=lambda _: 0),
    "pause": _process(**{"for": _seconds}),
    "clock": _process(by=_jump),
    "append-fails": _process(n=_few),
    "append-unclear": _process(n=_few),
    "append-late": _process(n=_few, **{"for": _seconds}),
    "append-zombie": _process(n=_few, **{"for": _seconds}),
    "read-fails": _process(n=_few),
    "call-refused": _caller(n=_few),
    "call-unclear": _caller(n=_few),
    "call-lost": _caller(n=_few),
    "call-late": _caller(n=_few, **{"for": _seconds}),
    "call-slow": _caller(n=_few, **{"for": _seconds}),
    "call-twice": _caller(n=_few, **{"for": _seconds}),
    "call-zombie": _caller(n=_few, **{"for": _seconds}),
    "call-bug": _caller(n=_few),
    "broker-stuck": _all(**{"for": _seconds}),
    "broker-slow": _all(**{"for": _seconds}),
    "node-down": _node,
    "node-silent": _node,
    "crash": _crash,
}


def faults_of(schedule: Schedule) -> Iterator[Deed]:
    """What is no wish of a user or an operator."""
    kinds = {kind.split("/")[0] for kind in FAULT_KINDS}
    return (deed for deed in schedule.deeds if deed.verb in kinds)

"""The kinds of faults: what each may be about, and with which options, by lot."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import msgspec

POLICIES_DRAWN = ("flowcon", "specon+flowcon", "dragon", "dragon-fixed", "pickyman", "round-robin", "steepest")
"""Policies of an installation besides that of the schedule's own parameters, SpeCon."""

LIES_ABOUT_WHAT_RUNS = 0.7
"""Probability of a device that it speaks of the newest incarnation of a job that runs, and not of any."""

OPENED_AGAIN = '{"type":"LogOpened","epoch":"of-another-log"}'
"""What a second process appends that takes a topic for empty."""

STEP_S = "150"
"""For so long is a migrator paused that another one takes over what it does: longer than nearly every step may take."""

OUTLASTS = 0.5
"""Probability of such a pause of a migrator."""

REFUSED_AGAIN = 0.5
"""Probability of a call whose migrator dies that the next migrator's call of that step is refused."""

TELLS = 0.3
"""Probability that a change of parameters which may say how growth is measured does so: its world lasts twice as long."""


class Cast(msgspec.Struct, frozen=True):
    """What a fault may be about, by name."""

    jobs: Sequence[str]
    nodes: Sequence[str]
    processes: Sequence[str]


Target = Callable[[random.Random, Cast], tuple[str, Mapping[str, str]]]


def _process(**options: Callable[[random.Random], object]) -> Target:
    def about(rng: random.Random, cast: Cast) -> tuple[str, Mapping[str, str]]:
        return rng.choice(cast.processes), {name: f"{draw(rng)}" for name, draw in options.items()}

    return about


def _caller(**options: Callable[[random.Random], object]) -> Target:
    def about(rng: random.Random, _: Cast) -> tuple[str, Mapping[str, str]]:
        return "migrator", {name: f"{draw(rng)}" for name, draw in options.items()}

    return about


def _all(**options: Callable[[random.Random], object]) -> Target:
    return lambda rng, _: ("", {name: f"{draw(rng)}" for name, draw in options.items()})


def _node(rng: random.Random, cast: Cast) -> tuple[str, Mapping[str, str]]:
    return rng.choice(cast.nodes), {"for": seconds(rng)}


def _pause(rng: random.Random, cast: Cast) -> tuple[str, Mapping[str, str]]:
    about = rng.choice(cast.processes)
    outlasts = about.startswith("migrator") and rng.random() < OUTLASTS
    return about, {"for": STEP_S if outlasts else seconds(rng)}


def _refused(rng: random.Random, _: Cast) -> tuple[str, Mapping[str, str]]:
    return "migrator", {"n": str(rng.choice((1, 1, 2, 3, 6)))} | ({"acts": "yes"} if rng.random() < 0.5 else {})


def _lost(rng: random.Random, _: Cast) -> tuple[str, Mapping[str, str]]:
    if rng.random() < 0.7:
        return "migrator", {"n": str(_few(rng))}
    return "migrator", {"n": "2", "refused": str(rng.choice((2, 4)))}


def _call_dies(rng: random.Random, _: Cast) -> tuple[str, Mapping[str, str]]:
    return "migrator", {"for": seconds(rng)} | ({"refused": "1"} if rng.random() < REFUSED_AGAIN else {})


def _power_loss(rng: random.Random, _: Cast) -> tuple[str, Mapping[str, str]]:
    down_s = seconds(rng)
    options = {"down": down_s, "lost": str(rng.choice((1, 3, 10, 40)))}
    return "", options | ({"again": f"{float(down_s) + rng.uniform(0.01, 0.5):.3f}"} if rng.random() < 0.5 else {})


def _crash(rng: random.Random, cast: Cast) -> tuple[str, Mapping[str, str]]:
    how = rng.choice(("killed", "lost", "failed"))
    return rng.choice(cast.jobs), {"how": how, "replica": str(rng.choice((0, 0, 0, 1, 2)))}


def _configure(rng: random.Random, _: Cast) -> tuple[str, Mapping[str, str]]:
    changes = {
        "policy": rng.choice((*POLICIES_DRAWN, "specon", "spread")),
        "placement": rng.choice(("spread", "flowcon2")),
        "preempt": rng.choice(("yes", "no")),
        "queue": rng.choice(("fifo", "priority", "srtf", "tiresias")),
        "node-lost-ms": rng.choice(("5000", "10000", "15000")),
        "interval-ms": rng.choice(("1000", "3000", "5000")),
    }
    chosen = rng.sample(list(changes), rng.randint(1, 3))
    if rng.random() > TELLS and len(chosen) > 1 and "interval-ms" in chosen:
        chosen.remove("interval-ms")
    return "", {name: changes[name] for name in chosen}


def _job_lies(rng: random.Random, cast: Cast) -> tuple[str, Mapping[str, str]]:
    false = {"further": rng.choice((-1_000, 1_000_000)), "larger": rng.choice((-1.0, 0.0, 1e300))}
    name = rng.choice(tuple(false))
    return rng.choice(cast.jobs), {name: str(false[name])}


def _device_lies(rng: random.Random, cast: Cast) -> tuple[str, Mapping[str, str]]:
    capacity = {"cpu": str(rng.choice((1, 4_000)))}
    if rng.random() < LIES_ABOUT_WHAT_RUNS:
        return "", capacity
    return rng.choice(cast.jobs), {"of": str(rng.randint(1, 3)), **capacity}


def _garbage(rng: random.Random, _: Cast) -> tuple[str, Mapping[str, str]]:
    value = rng.choice(("", "", OPENED_AGAIN))
    return rng.choice(("cluster", "loss", "heartbeats")), {"value": value} if value else {}


def _garbage_while_down(rng: random.Random, cast: Cast) -> tuple[str, Mapping[str, str]]:
    about, options = _garbage(rng, cast)
    return about, {**options, "down": seconds(rng)}


def seconds(rng: random.Random) -> str:
    """For so long something is down, or late."""
    return f"{rng.choice((0.5, 2, 5, 12, 25)) * rng.uniform(0.8, 1.2):.2f}"


def _few(rng: random.Random) -> int:
    return rng.choice((1, 1, 2, 3))


def _some(rng: random.Random) -> int:
    """How many appends fail: a process has loops and effectors that append, and each must meet one."""
    return rng.choice((1, 2, 4, 8))


def _jump(rng: random.Random) -> int:
    return rng.choice((-3_600_000, -20_000, -500, 500, 20_000, 3_600_000))


FAULT_KINDS: Mapping[str, Target] = {
    "kill": _process(down=seconds),
    "kill/forget": _process(down=seconds, snapshots=lambda _: "lost"),
    "stop": _process(down=seconds),
    "upgrade": _process(down=seconds),
    "power-loss": _power_loss,
    "trim": _all(),
    "age": _process(down=seconds),
    "garbage": _garbage,
    "garbage/while-down": _garbage_while_down,
    "roll-back": _process(down=seconds),
    "pause": _pause,
    "clock": _process(by=_jump),
    "clock/drift": _process(drift=lambda rng: rng.choice((-0.1, 0.1))),
    "append-fails": _process(n=_some),
    "append-unclear": _process(n=_some),
    "append-late": _process(n=_few, **{"for": seconds}),
    "append-zombie": _process(n=_few, **{"for": seconds}),
    "append-dies": _process(**{"for": seconds}),
    "read-fails": _process(n=_few),
    "call-refused": _refused,
    "call-unclear": _caller(n=_few),
    "call-lost": _lost,
    "call-late": _caller(n=_few, **{"for": seconds}),
    "call-slow": _caller(n=_few, **{"for": seconds}),
    "call-twice": _caller(n=_few, **{"for": seconds}),
    "call-zombie": _caller(n=_few, **{"for": seconds}),
    "call-bug": _caller(n=_few),
    "call-dies": _call_dies,
    "broker-stuck": _all(**{"for": seconds}),
    "broker-slow": _all(**{"for": seconds}),
    "node-down": _node,
    "node-silent": _node,
    "node-gone": lambda rng, cast: (rng.choice(cast.nodes), {"for": "30"}),
    "crash": _crash,
    "job-lies": _job_lies,
    "device-lies": _device_lies,
    "configure": _configure,
    "disk-full": _process(n=lambda rng: rng.choice((1, 5, 20))),
    "recreate": lambda rng, _: (rng.choice(("loss", "heartbeats")), {"down": seconds(rng)}),
}

"""Schedules by lot: a seed is a world, its jobs, what operators want of them, and faults.

Nearly every kind of fault is drawn as often as any other, at a moment or at a step; and so is nearly every step of every
kind of plan. What strikes seldom is drawn more often. A fault at a step of a plan comes with what makes such a plan, so
that the step is reached.

In two of three schedules each fault waits for the next plan that comes to its step, with a wish that makes such a plan of
some job for which it is valid: they strike there many times as often. In the third one faults are at the n-th beginning
of a step, and wishes are of jobs drawn before: their plans may be void, and what meets is left to chance.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import msgspec
from tests.faults.fault_kinds import FAULT_KINDS, POLICIES_DRAWN, STEP_S, Cast, seconds
from tests.faults.judge import ALONE, LATE, RESTATED
from tests.faults.processes import TOPOLOGIES
from tests.faults.schedule import ENDLESS_STEPS, Action, Schedule, When
from tests.faults.world import LIMITED

JOBS = 30
LASTING_STEPS = "130"
"""Of one job where the parameters of measuring change: what a job is judged by may be that of before for a minute."""

TOLD_S = (32.0, 40.0)
"""When they change: once most processes have started for the last time, as all parameters are announced then."""

FAR_BACK_MS = -20_000
"""A clock that is set back by so much is so by several intervals."""

OUTLASTING_STEPS = "40"
"""Of one job where a clock is set far back: its growth must be measured after that."""

ENDLESS: Mapping[str, str] = {"steps": str(ENDLESS_STEPS), "cpu": "100", "mode": "none"}
"""Of a job that ends only if it is cancelled."""

SELDOM = 0.06
"""Probability of a fault that is moved to a step, or drawn for it, at which chance alone has it strike least of all."""

WITH_ENDLESS = 0.25
"""Probability of one more job, which ends only if its cancel is carried out."""

WITH_AGENTS = 0.25
"""Probability of a world in which each node has an agent of its own, so that they do not begin at one moment."""

FAULTS = 16
"""Drawn for each schedule; one whose moment never comes, or whose process is down, does not strike."""

OPERATIONS = 4
"""Wishes of operators and users besides those that make a plan for a fault."""

BEGIN_S = 1.0
END_S = 30.0
LAST_AT_STEP_S = 16.0
"""From when on the last fault waits for its step: jobs must be there that come to it."""

SELDOM_IN_TIME = ("node-gone", "node-gone")
"""A fault that often comes too late for its step: drawn three times as often."""

COMES_AFTER_S = {"node-gone": 14.0, "roll-back": 3.0}
"""Seconds that a fault takes before it can strike: until a failed node is lost to its pool, or a process upgraded."""

SOONER_OR_LATER = {"node-gone": (1.0, 5.0), "trim": (9.0, LAST_AT_STEP_S), "age": (9.0, LAST_AT_STEP_S)}
"""From when on the faults wait for their steps that need what is there later: a lost node, a snapshot of every loop."""

AT_A_STEP = 0.8
"""Probability of a fault that waits for steps that it does so, and does not strike at a moment."""

POINTS = (
    "place.start",
    "migrate.checkpoint", "migrate.stop", "migrate.start", "migrate.verify",
    "suspend.checkpoint", "suspend.stop",
    "shed.stop",
    "scale.checkpoint", "scale.stop", "scale.start", "scale.verify",
    "move.checkpoint", "move.stop", "move.start", "move.verify",
    "cancel.stop", "clear.stop",
)  # fmt: skip
"""Steps of the plan machine at which faults are drawn."""

RARE = (
    "suspend.stop", "shed.stop", "migrate.stop", "migrate.start", "migrate.start", "scale.start", "scale.verify",
    "move.start", "move.verify", "clear.stop",
)  # fmt: skip
"""Steps that few faults of others meet, as they take little time or come seldom: drawn once more for each mention."""

MADE_BY = {
    "migrate": "move", "suspend": "suspend", "scale": "scale", "shed": "shed", "move": "gang-move",
    "cancel": "cancel", "clear": "crash",
}  # fmt: skip
"""Kind of plan to the action that makes one."""

MADE = 0.7
"""Probability that a fault at a step comes with an action that makes such a plan; others are made anyway."""

TOPOLOGY_LOTS = {"embedded": 6, "split": 2, "doubled": 1, "shared": 1}
"""How often each is drawn: in the time of one with replicas two others are played, which find more."""

BREAKS = ("silent", "spoil", "ignore-term")
"""How a job breaks its word."""

RESTATING = (*RESTATED, "roll-back")
"""Faults of a world of which replay equality cannot be asked."""

SELDOM_RESTATING = ("recreate", "roll-back")
"""Those that strike least of them: drawn once more where they are."""

CALM = 0.55
"""Probability of a schedule without them. In the others they are drawn twice as often as the rest, which makes up for it."""

IN_TIME = 0.5
"""Probability of one among those in which no append is late either."""

REMOVING = ("trim", "trim", "trim", "trim", "age", "age", "age")
"""Faults that wait until every loop has kept a snapshot, for which all keep more of them; each as often as it is drawn."""

REMOVES = 0.5
"""Probability of a schedule with them."""


LIMITED_WORLDS = 0.5
"""Probability of a world in which a queue has a limit."""

LIMITED_JOBS = 0.5
"""Probability of a job there that it is in this queue."""

LIMITS_M = ("1200", "1500", "2400")
"""CPU that such a queue may hold, in millicores."""


SWEPT_WORLDS = 0.4
"""Probability of a world in which some jobs are trials of one sweep."""

SWEPT_JOBS = 0.4
"""Probability of a job there, whose end is not waited for by others, that it is one."""


def drawn(seed: int) -> Schedule:
    """The schedule of a seed."""
    rng = random.Random(seed)
    at_steps = seed % 3 > 0
    topology = rng.choices(tuple(TOPOLOGY_LOTS), tuple(TOPOLOGY_LOTS.values()))[0]
    pools = ("default", "blue") if topology == "shared" else ("default",)
    nodes = {f"n{number}": {"cpu": str(rng.choice((1000, 1500, 2000)))} for number in range(1, rng.randint(3, 5) + 1)}
    nodes |= {f"b{number}": {"cpu": "1500", "pool": "blue"} for number in range(1, 3) if len(pools) > 1}
    world = _world(rng, seed, topology, pools)
    jobs = [f"j{number}" for number in range(1, JOBS + 1)]
    gangs = [job for job in jobs if rng.random() < 0.2] or jobs[:1]
    actions = [_job(rng, job, is_gang=job in gangs, pools=pools) for job in jobs]
    if at_steps:
        actions[0] = _pliable(rng)
        gangs += jobs[:1] if jobs[0] not in gangs else []
    actions += [_operation(rng, rng.choice(OPERATION_KINDS), jobs, gangs, list(nodes)) for _ in range(OPERATIONS)]
    cast, kinds = Cast(jobs, list(nodes), list(TOPOLOGIES[topology])), _kinds(rng)
    for _ in range(FAULTS):
        actions.append(fault := _fault(rng, rng.choice(kinds), cast, at_steps=at_steps))
        wanted = MADE_BY.get(fault.when.point.partition(".")[0])
        if wanted is not None and at_steps:
            actions.append(_made_for(rng, fault, wanted))
        elif wanted is not None and rng.random() < MADE:
            actions.append(_operation(rng, wanted, jobs, gangs, list(nodes)))
    if rng.random() < WITH_ENDLESS:
        actions += _endless(rng)
    actions = [_late(rng, action) if "interval-ms" in action.options else action for action in actions]
    is_told = any("interval-ms" in action.options for action in actions)
    if is_told or any(action.number("by", 0) <= FAR_BACK_MS for action in actions):
        steps = LASTING_STEPS if is_told else OUTLASTING_STEPS
        actions[1] = msgspec.structs.replace(actions[1], options={**actions[1].options, "steps": steps})
    if any(action.verb in REMOVING for action in actions):
        world["snapshots"] = rng.choice(("10", "20"))
    if at_steps:
        actions = _with_rare_cases(rng, actions, world, cast)
    actions = _swept(seed, _limited(seed, actions, world))
    return Schedule(
        world,
        nodes,
        tuple(sorted(actions, key=lambda one: (bool(one.when.nth), one.when.from_s or one.when.at_s))),
    )


def _world(rng: random.Random, seed: int, topology: str, pools: Sequence[str]) -> dict[str, str]:
    world = {
        "seed": str(seed),
        "topology": topology,
        "pools": ",".join(pools),
        "snapshots": rng.choice(("40", "80", "20000")),
        "placement": rng.choice(("spread", "spread", "flowcon2")),
    }
    if rng.random() < 0.5:
        world["policy"] = rng.choice(POLICIES_DRAWN)
    if rng.random() < WITH_AGENTS:
        world["agents"] = "each"
    return world


def _limited(seed: int, actions: Sequence[Action], world: dict[str, str]) -> list[Action]:
    """The same actions; in a world where a queue has a limit, half of the jobs are in it, and the limit changes once.

    It is no less than the largest job asks for, so that all jobs end. Its lots are its own, so that others stay as they are.
    """
    rng = random.Random(f"limits-{seed}")
    if rng.random() >= LIMITED_WORLDS:
        return list(actions)
    world["limit"] = rng.choice(LIMITS_M)
    chosen = [action.verb == "submit" and rng.random() < LIMITED_JOBS for action in actions]
    limited = [
        msgspec.structs.replace(action, options={**action.options, "queue": LIMITED}) if is_chosen else action
        for action, is_chosen in zip(actions, chosen, strict=True)
    ]
    return [*limited, Action(_time(rng), "configure", "", {"limit": rng.choice(LIMITS_M)})]


def _swept(seed: int, actions: Sequence[Action]) -> list[Action]:
    """The same actions; in some worlds, some jobs are trials, whose losses fall differently fast. Its lots are its own."""
    rng = random.Random(f"sweeps-{seed}")
    if rng.random() >= SWEPT_WORLDS:
        return list(actions)
    chosen = [
        action.verb == "submit" and action.about[1:].isdecimal() and rng.random() < SWEPT_JOBS for action in actions
    ]
    return [
        msgspec.structs.replace(action, options={**action.options, "trial": "yes", "learns": str(rng.randint(4, 40))})
        if is_chosen
        else action
        for action, is_chosen in zip(actions, chosen, strict=True)
    ]


def _with_rare_cases(rng: random.Random, actions: Sequence[Action], world: dict[str, str], cast: Cast) -> list[Action]:
    """The same actions, and in a few schedules what chance alone brings about least of all."""
    actions = list(actions)
    if rng.random() < SELDOM:
        actions += _node_gone_before_gang_starts(rng, cast)
        actions += _starts_behind_its_end(rng)
    if world["topology"] != "embedded" and rng.random() < SELDOM:
        # None are lost of a log that was trimmed.
        actions = [*(action for action in actions if action.verb not in REMOVING), *_last_power_loss(rng, world)]
    if world["topology"] in ALONE and rng.random() < SELDOM:
        actions += _refused_although_it_runs(rng)
    return actions


def _time(rng: random.Random) -> When:
    return When(round(rng.uniform(BEGIN_S, END_S), 3))


def _late(rng: random.Random, action: Action) -> Action:
    return msgspec.structs.replace(action, when=When(round(rng.uniform(*TOLD_S), 3)))


def _job(rng: random.Random, job: str, *, is_gang: bool, pools: Sequence[str]) -> Action:
    options = {
        "steps": str(rng.randint(2, 12)),
        "cpu": str(rng.choice((100, 200, 300))),
        "mode": rng.choice(("on-request", "on-request", "on-stop", "none")),
    }
    if is_gang:
        options["replicas"] = str(rng.randint(2, 4))
        options |= {"fewest": "1"} if rng.random() < 0.7 else {}
        options |= {"loose": "yes"} if "fewest" in options and rng.random() < 0.6 else {}
    elif rng.random() < 0.2:
        options["learns"] = str(rng.randint(1, 4))
    if rng.random() < 0.15:
        options["priority"] = "10"
    if rng.random() < 0.2:
        options["save-s"] = "0.5"
    if rng.random() < 0.1:
        options["breaks"] = rng.choice(BREAKS)
    if rng.random() < 0.05:
        options |= {"exit": "1", "retries": "2"}
    if (pool := rng.choice(pools)) != pools[0]:
        options["pool"] = pool
    return Action(When(round(rng.uniform(0.1, END_S * 0.6), 3)), "submit", job, options)


def _pliable(rng: random.Random) -> Action:
    """A gang about which every kind of plan can be made, so that each schedule has one for long."""
    options = {"steps": "20", "cpu": "100", "mode": "on-request", "replicas": "3", "fewest": "1", "loose": "yes"}
    return Action(When(round(rng.uniform(0.1, 2.0), 3)), "submit", "j1", options)


def _endless(rng: random.Random) -> Sequence[Action]:
    """A job without end, and its cancel, which a cluster refuses several times that says what is there."""
    at_s = round(rng.uniform(4.0, 14.0), 3)
    refused = Action(When(0.0, "cancel.stop", from_s=at_s), "call-refused", "migrator", {"n": "6", "acts": "yes"})
    submitted = Action(When(round(rng.uniform(0.1, 2.0), 3)), "submit", "endless", ENDLESS)
    return submitted, Action(When(at_s), "cancel", "endless"), refused


def _node_gone_before_gang_starts(rng: random.Random, cast: Cast) -> Sequence[Action]:
    """A node that is gone before a gang that moved starts: few gangs are left by then, so that two wishes are for it."""
    about, options = FAULT_KINDS["node-gone"](rng, cast)
    gone = Action(
        When(0.0, "move.start", from_s=round(rng.uniform(*SOONER_OR_LATER["node-gone"]), 3)),
        "node-gone",
        about,
        options,
    )
    return gone, *(_made_for(rng, gone, "gang-move") for _ in range(2))


def _starts_behind_its_end(rng: random.Random) -> Sequence[Action]:
    """A job without end whose cancel comes before its START takes effect, which nothing waits for any more."""
    at_s = round(rng.uniform(0.5, 14.0), 3)
    late = Action(
        When(0.0, "place.start", from_s=at_s), "call-zombie", "migrator", {"for": seconds(rng), "starts": "unborn"}
    )
    cancelled = Action(When(round(at_s + rng.uniform(0.02, 0.3), 3)), "cancel", "unborn")
    return Action(When(at_s), "submit", "unborn", ENDLESS), cancelled, late


def _refused_although_it_runs(rng: random.Random) -> Sequence[Action]:
    """A job whose migrator dies with its START, which may take effect, and is refused when it makes the START again."""
    at_s = round(rng.uniform(1.0, END_S / 2), 3)
    dies = Action(
        When(0.0, "place.start", from_s=at_s),
        "call-dies",
        "migrator",
        {"for": "1", "refused": "1", "starts": "refused"},
    )
    return Action(When(at_s), "submit", "refused", {"steps": "40", "cpu": "100", "mode": "none"}), dies


def _last_power_loss(rng: random.Random, world: dict[str, str]) -> Sequence[Action]:
    """A short job whose START is lost has ended before the machines are back, and nothing that starts then starts again.

    What watches the nodes comes back first, so that the job's end is reported before it has a plan again.
    """
    at_s, down_s = round(rng.uniform(END_S * 0.6, END_S), 3), round(rng.uniform(10, 20), 2)
    world["more"] = str(down_s + 5.0)
    short = {"steps": str(rng.randint(2, 4)), "cpu": "100", "mode": "none"}
    options = {"down": str(down_s), "later": STEP_S, "exactly": str(rng.randint(4, 8)), "starts": "cut-off"}
    started = When(round(rng.uniform(0.05, 0.2), 3), "place.start", from_s=at_s)
    return Action(When(at_s), "submit", "cut-off", short), Action(started, "power-loss", "", options)


def _made_for(rng: random.Random, fault: Action, verb: str) -> Action:
    """What makes the plan for whose step a fault waits, of any job for which it is valid."""
    kind, _, step = fault.when.step.partition(".")
    options = {"pick": str(rng.randrange(JOBS))} | ({"saves": "yes"} if step == "checkpoint" else {})
    options |= {"how": "failed"} if kind == "clear" else _lateness(rng, 0.15)
    from_s = fault.when.from_s + COMES_AFTER_S.get(fault.verb, 0.0)
    return Action(When(round(from_s + rng.uniform(0.05, 2.0), 3)), verb, "", options)


OPERATION_KINDS = ("move", "move", "suspend", "suspend", "scale", "scale", "gang-move", "gang-move", "shed", "cancel")

WISHES = frozenset(OPERATION_KINDS)
"""What operators and users do that is no fault."""


def _operation(rng: random.Random, verb: str, jobs: list[str], gangs: list[str], nodes: list[str]) -> Action:
    job = rng.choice(gangs if verb in {"scale", "shed", "gang-move", "crash"} else jobs)
    to = ",".join(rng.choice(nodes) for _ in range(4))
    options = {
        "move": {"to": rng.choice(nodes)},
        "scale": {"to": to, "size": str(rng.randint(1, 5))},
        "shed": {"count": str(rng.randint(1, 3))},
        "crash": {"how": "failed", "replica": str(rng.choice((0, 1)))},
    }
    return Action(
        _time(rng), verb, job, options.get(verb, {"to": to} if verb == "gang-move" else {}) | _lateness(rng, 0.4)
    )


def _lateness(rng: random.Random, share: float) -> dict[str, str]:
    """So many of the plans are of a view that is some seconds old: what they are about may have changed."""
    late = round(rng.uniform(0.1, 3.0), 2)
    return {"late": str(late)} if rng.random() < share else {}


# --- faults -------------------------------------------------------------------------------------------------------


def _kinds(rng: random.Random) -> Sequence[str]:
    """The kinds of faults of a schedule: such that what can be judged only without some of them is judged often."""
    kinds = (*(kind for kind in FAULT_KINDS if kind not in REMOVING), *SELDOM_IN_TIME)
    if rng.random() < REMOVES:
        kinds = (*kinds, *REMOVING)
    if rng.random() > CALM:
        return (*kinds, *RESTATING, *SELDOM_RESTATING)
    left_out = (*RESTATING, *LATE) if rng.random() < IN_TIME else RESTATING
    return tuple(kind for kind in kinds if kind not in left_out)


def _fault(rng: random.Random, kind: str, cast: Cast, *, at_steps: bool) -> Action:
    about, options = FAULT_KINDS[kind](rng, cast)
    verb = kind.partition("/")[0]
    when = _next(rng) if at_steps else _when(rng)
    if when.step and verb in SOONER_OR_LATER:
        first_s, last_s = SOONER_OR_LATER[verb]
        when = msgspec.structs.replace(when, from_s=round(rng.uniform(first_s, last_s), 3))
    if when.step and verb in OF_THE_STEP and rng.random() < 0.7:
        about = OF_THE_STEP[verb]
    return Action(when, verb, about, options)


OF_THE_STEP = {
    "crash": "", "append-fails": "migrator", "append-unclear": "migrator", "append-late": "migrator",
    "append-zombie": "migrator",
}  # fmt: skip
"""Faults that concern, at a step, mostly whose step it is: its job, and the service that takes it."""


def _when(rng: random.Random) -> When:
    if rng.random() < 0.25:
        return _time(rng)
    point = rng.choice(POINTS)
    nth = rng.randint(1, 30) if point == "place.start" else 1 + int(rng.expovariate(1.5))
    return When(round(rng.choice((0.0, rng.uniform(0, 0.05), rng.uniform(0, 2))), 4), point, nth)


def _next(rng: random.Random) -> When:
    """At the next beginning or outcome of a step, or at a moment."""
    if rng.random() > AT_A_STEP:
        return _time(rng)
    point = rng.choice((*POINTS, *RARE)) + rng.choice(("", "", "", "", ".over"))
    soon = [rng.uniform(0, 0.03) for _ in range(3)]
    after_s = rng.choice((0.0, 0.0, *soon, rng.uniform(0, 2)))
    return When(round(after_s, 4), point, from_s=round(rng.uniform(BEGIN_S, LAST_AT_STEP_S), 3))

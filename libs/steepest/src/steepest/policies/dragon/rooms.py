"""What room there would be for a waiting job if running gangs were smaller, and which gangs grow into what is free.

The rules are ``ScaleDown`` and ``ScaleUp`` of both generations of DRAGON's code. It owns them. It must never make plans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from steepest.events.common import NodeRule, Resources
from steepest.events.dragon_parameters import DragonGeneration, DragonParameters
from steepest.events.requests import Role
from steepest.policies.dragon.packing import pack
from steepest.policies.dragon.running_gangs import RunningGangs
from steepest.policies.dragon.scaling import Helps, Shape
from steepest.policies.placement.gangs import GangPlaces, fewest
from steepest.policies.placement.slots import Slots, fitting
from steepest.view.state import Job


class Want(msgspec.Struct, frozen=True):
    """What a job needs at least: each role with its fewest replicas.

    Attributes:
        judged: The roles by which it is judged whether there is room.
        rule: Which nodes it may run on; None: those without taints.
    """

    roles: tuple[Role, ...]
    judged: tuple[Role, ...]
    first_node: str | None = None
    rule: NodeRule | None = None


class Made(msgspec.Struct, frozen=True):
    """Gangs made smaller, so that there is room for a job.

    Attributes:
        shapes: What is left of each gang that gives up workers, by its name.
        free: What is free then on each node where the job may run.
    """

    shapes: Mapping[str, Shape]
    free: Slots


def least(
    roles: Sequence[Role],
    rules: DragonParameters,
    first_node: str | None = None,
    rule: NodeRule | None = None,
) -> Want:
    """What a job of these roles needs at least."""
    small = tuple(
        msgspec.structs.replace(role, replicas=count, min=None, max=None, sizes=())
        for role, count in zip(roles, fewest(roles), strict=True)
    )
    workers = tuple(role for role in small if not role.is_server)
    return Want(small, workers if rules.server_is_ignored and workers else small, first_node, rule)


def has_room(want: Want, slots: Slots, rules: DragonParameters) -> bool:
    """Whether a job is judged to have room. Work: O(roles) where the slots are too few or all replicas are alike."""
    if any(slots.of(role.requests) < role.replicas for role in want.judged):
        return False
    return (len(want.judged) == 1 and want.first_node is None) or places_of(want, slots, rules) is not None


def places_of(want: Want, slots: Slots, rules: DragonParameters) -> GangPlaces | None:
    """Where the fewest replicas of a job would be that it is judged by."""
    first = want.first_node if want.judged == want.roles else None
    return pack(want.judged, slots, rules, first_node=first)


def make_room(want: Want, gangs: RunningGangs, free: Mapping[str, Resources], rules: DragonParameters) -> Made | None:
    """Let running gangs give up workers, in the order of their starts, until a job has room; None where it never has.

    A worker leaves only while the job has no room yet, so that nothing leaves where it has.

    Args:
        want: What the job needs.
        gangs: Those that run.
        free: What is free on each node where the job may run.
        rules: Which generation, and its switches.

    Work: O(1) where even the smallest gangs leave no room; else O(nodes + replicas of the gangs that become smaller).
    """
    most = gangs.most_for(want.rule)
    if any(most.of(role.requests) < role.replicas for role in want.judged):
        return None
    trial = Slots(free)
    helps = None if want.rule is None else trial.free.__contains__
    shapes: dict[str, Shape] = {}
    if has_room(want, trial, rules):
        return Made(shapes, trial)
    for job in gangs.in_order():
        shape = Shape.of(job)
        for freed in shape.shrink(helps):
            for node, amount in freed:
                if node in trial.free:
                    trial.put(node, trial.free[node] + amount)
            shapes[job.name] = shape
            if has_room(want, trial, rules):
                return Made(shapes, trial)
    return None


def make_room_by_count(want: Want, gangs: RunningGangs, free: Mapping[str, Resources]) -> Made | None:
    """The paper's era: as many workers leave as the job's fewest exceed the free slots; None unless more could leave.

    Parameter servers are left out, and whether replicas fit next to each other. Of workers on nodes where the job may
    not run, none counts.
    """
    needed = sum(role.replicas for role in want.judged)
    trial = Slots(free)
    helps = None if want.rule is None else trial.free.__contains__
    missing = needed - min(trial.of(role.requests) for role in want.judged)
    surplus = sum(_surplus(Shape.of(job), helps) for job in gangs.in_order())
    if surplus <= needed:
        return None
    shapes: dict[str, Shape] = {}
    for job in gangs.in_order():
        shape = Shape.of(job)
        steps = shape.shrink(helps)
        while missing > 0 and (freed := next(steps, None)) is not None:
            missing -= sum(helps is None or helps(node) for node, _ in freed)
            shapes[job.name] = shape
    return Made(shapes, trial)


def _surplus(shape: Shape, helps: Helps | None) -> int:
    """How many workers of a gang could leave where that helps."""
    return sum(
        min(len(nodes) - role.fewest, len(nodes) if helps is None else sum(map(helps, nodes)))
        for role, nodes in zip(shape.roles, shape.placed, strict=True)
        if not role.is_server
    )


def grown(
    jobs: Sequence[Job], free: Callable[[NodeRule | None], Mapping[str, Resources]], rules: DragonParameters
) -> Iterator[tuple[Job, Shape]]:
    """The gangs that get more workers of what is free, in the order given, and what they are then.

    Version 0.9 lets one gang after another have as many as fit; in the paper's era each gets one worker a round.

    Args:
        jobs: The gangs.
        free: What is free on each node where a gang with a rule may run.
        rules: Which generation, and its switches.

    Work: O(nodes) for each rule of them.
    """
    allowed = {rule: free(rule) for rule in dict.fromkeys(job.node_rule for job in jobs)}
    left = {name: amount for nodes in allowed.values() for name, amount in nodes.items()}
    asked = tuple(dict.fromkeys(role.requests for job in jobs for role in job.spec.all_roles))
    others = {
        rule: [name for name in sorted(nodes) if any(fitting(requests, left[name]) for requests in asked)]
        for rule, nodes in allowed.items()
    }
    shapes = [Shape.of(job) for job in jobs]
    growing = [
        shape.grow(rules.growth, left, others[job.node_rule], allowed[job.node_rule])
        for job, shape in zip(jobs, shapes, strict=True)
        if others[job.node_rule]
    ]
    rounds = 1 if rules.generation is DragonGeneration.PAPER_ERA else None
    while growing:
        growing = [one for one in growing if _goes_on(one, rounds)]
    for job, shape in zip(jobs, shapes, strict=True):
        if shape.sizes != Shape.of(job).sizes:
            yield job, shape


def _goes_on(growing: Iterator[None], rounds: int | None) -> bool:
    """Let a gang grow for this number of steps (None: as long as it can); whether it may grow further."""
    if rounds is None:
        for _ in growing:
            pass
        return False
    return all(next(growing, growing) is None for _ in range(rounds))

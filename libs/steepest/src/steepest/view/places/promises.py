"""Room that plans will leave, promised to plans that wait for them.

A plan may be valid before there is room for it: it names the plans that make room, ``after``, and none of its steps begins
before all of these are over. From its place in the log on it holds what it needs beyond what they will leave; what they
will leave on a node is promised to it and to no other plan. Where one of them is over, by any event, what it left is
held in the same record; where less was left than was promised, the plan that waits must be given up.

So what a node has allocated is never more than its capacity, and all that runs there holds a part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from steepest.events.common import Resources
from steepest.view.places import gangs
from steepest.view.plans import Doom
from steepest.view.projection import Projection
from steepest.view.state import Plan, PlanStatus


def not_coming(view: Projection, after: Iterable[str]) -> str | None:
    """The first of these plans which will make no room, because it is unknown, void or failed; None if all do or have."""
    for name in after:
        plan = view.plan(name)
        if plan is None or plan.status not in {PlanStatus.IN_FLIGHT, PlanStatus.FINISHED}:
            return name
    return None


def share(view: Projection, after: Sequence[str], node: str, need: Resources) -> dict[str, Resources]:
    """How much of ``need`` on a node each of these plans will leave that is not promised yet."""
    shares: dict[str, Resources] = {}
    for name in after:
        plan = view.in_flight.get(name)
        if plan is None:
            continue
        left = _leaves(view, plan, node)
        for waiting in view.waiting.values():
            if not waiting.doomed:
                left -= waiting.promised.get(name, {}).get(node, Resources())
        part = need.smaller(left.positive)
        if part != Resources():
            shares[name] = part
            need -= part
    return shares


def _leaves(view: Projection, plan: Plan, node: str) -> Resources:
    """The room that a plan in flight will free on a node."""
    job = view.jobs[plan.job]
    _, kept = gangs.places(job, plan.targets, plan.sizes).get(node, (0, Resources()))
    return (view.nodes.held(job, node) - (Resources() if gangs.is_clearing(plan) else kept)).positive


def keep(view: Projection) -> None:
    """After a record by which plans are over: give what they left to the plans that waited for them."""
    for plan in list(view.waiting.values()):
        over = [name for name in plan.waits if name not in view.in_flight]
        if not over:
            continue
        plan.waits = tuple(name for name in plan.waits if name in view.in_flight)
        for name in over:
            _give(view, plan, name)
        if plan.doomed or not plan.waits:
            view.newly_due.append(plan)
        if not plan.waits:
            del view.waiting[plan.id]


def _give(view: Projection, plan: Plan, over: str) -> None:
    left = plan.promised.get(over, {})
    if plan.doomed or not all(node in view.nodes and part.fits(view.nodes[node].free) for node, part in left.items()):
        plan.doomed = plan.doomed or Doom.NO_ROOM_MADE.about(plan=over)
        return
    plan.promised.pop(over, None)
    gangs.hold(view, view.jobs[plan.job])

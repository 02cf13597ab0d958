"""Alternatives to a decision: why each was not chosen, and what would have to change for it to be.

It owns the formulas and these sentences, for every kind of decision; a kind that it does not know is explained by its rule
and its inputs alone. Pure: a function of the event and of the view that has folded it. Algorithms 4 and 5 are SpeCon's,
Algorithm 1 is FlowCon's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from steepest.describe import cpu_limit, percent, span
from steepest.events import cluster as c
from steepest.policies.steepest.node_plan import ENOUGH
from steepest.view.cluster_view import ClusterView
from steepest.view.nodes import allocation
from steepest.view.validity import no_room, room_sentence

NODES_MOST = 16
"""Nodes that are named as alternatives."""

NAMED_MOST = 4
"""Number of other jobs on the node that are named with a job's limit."""

ENOUGH_M = round(1000 * ENOUGH)
"""The policy ``steepest`` does not limit a job that lacks at most this much of the CPU that it can use."""


class Alternative(msgspec.Struct, frozen=True, kw_only=True):
    """An alternative that was not decided.

    Attributes:
        option: A node, a move, a limit, or the void plan itself.
        score: By what options are compared, in the unit of the formula; None: it was out of the question.
        lost_because: Why it was not chosen.
        wins_if: What would have to be different.
    """

    option: str
    score: float | None = None
    lost_because: str
    wins_if: str


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """One decision.

    Attributes:
        rule: The algorithm and branch; empty where an event says none.
        formula: How the rule decides.
        inputs: What it was decided from.
    """

    rule: str = ""
    formula: str = ""
    inputs: Mapping[str, Any] = {}
    alternatives: tuple[Alternative, ...] = ()


FORMULAS: Mapping[str, str] = {
    "Algorithm 4": (
        "score(n) = 2·|PC| + 1.5·|WC| + 1·|CC| with the pool's weights; the lowest score below its own node's that has room "
        "wins, then the least use, then the name"
    ),
    "Algorithm 5": (
        "bf = ⌊Σ|w| / |W|⌋; a node with fewer than bf jobs gets the most recently converged job of one with more than bf"
    ),
    "spread": "the least mean share of CPU, memory and GPUs reserved afterwards wins, then fewer replicas, then the name",
    "flowcon2": "the node wins from which most can be reclaimed: the CPU of its jobs that hardly grow",
    "slow node": "steps left · their time before · (how much slower − how much slower at the target) − the move; most wins",
    "a gang": "as few nodes as possible hold all replicas",
    "priority": "the cheapest set of less urgent jobs whose room is enough is suspended",
}
"""By the beginning of a rule."""

GROWTH_FORMULA = (
    "G = progress / use; a job in NL has min(G/ΣG, 1) of the node, one in CL max(G/ΣG, 1/(β·n)); "
    "one in WL keeps its limit"
)

FAIR_FORMULA = (
    "first what cannot wait, by due time: the end under fair sharing and a small share of the completion time; then by "
    "falling index, the value of 1000 s of CPU: of having learned most and of the end, over the work until then"
)


def explained(view: ClusterView, event: c.ClusterEvent, job: str, void: str = "") -> Explained:
    """The explanation of a decision about a job.

    Args:
        view: The pool, which has just folded the event.
        event: The event.
        job: The job, of which a plan for a whole node is one part.
        void: Why a plan is void; empty where it is not.
    """
    alternatives = [_void(void)] if void else []
    match event:
        case c.LimitsPlanned():
            return Explained(
                rule=event.because.rule,
                formula=_limits_formula(event.because),
                inputs=msgspec.to_builtins(event.because),
                alternatives=tuple(_limits(view, event, job)),
            )
        case c.CategoryChanged(growth=growth):
            alpha = view.parameters.specon.alpha
            return Explained(
                rule="Algorithm 3: the category follows from the growth of the loss",
                formula="growth = |change of the mean loss in the interval| / the largest change so far, compared with α",
                inputs={"growth": growth, "alpha": alpha, "before": event.before, "after": event.after},
                alternatives=(_category(event, alpha),),
            )
        case c.RetryPlanned():
            return Explained(
                rule="retries: a failed process starts again while retries are left",
                formula="retries used < retries of the job, where the failure is charged",
                inputs={"charged": event.charged, "reason": event.reason, "not_before_ms": event.not_before_ms},
            )
    because = getattr(event, "because", None)
    if not isinstance(because, c.Because):
        inputs = {} if because is None else msgspec.to_builtins(because)
        return Explained(rule=getattr(because, "rule", ""), inputs=inputs, alternatives=tuple(alternatives))
    alternatives += _spared(because)
    alternatives += [*_nodes(event, because), *_moves(because)]
    if isinstance(event, c.PlacementPlanned):
        alternatives += _places(view, event)
    if isinstance(event, c.TransitionPlanned) and event.room_for:
        alternatives.append(_staying(event))
    return Explained(
        rule=because.rule,
        formula=next((text for start, text in FORMULAS.items() if because.rule.startswith(start)), because.rule),
        inputs=msgspec.to_builtins(because),
        alternatives=tuple(alternatives),
    )


def _limits_formula(because: c.LimitsBecause) -> str:
    if because.jobs:
        return GROWTH_FORMULA
    return FAIR_FORMULA if because.standing else because.rule


def _void(why: str) -> Alternative:
    return Alternative(
        option="the plan takes effect",
        lost_because=why,
        wins_if=f"at its position in the log it were not so that {why}",
    )


def _category(event: c.CategoryChanged, alpha: float) -> Alternative:
    if event.growth < alpha:
        return Alternative(
            option=str(event.before),
            score=event.growth,
            lost_because=f"its loss changed {percent(event.growth)}, less than α = {percent(alpha)}",
            wins_if=f"its loss had changed {percent(alpha)} or more in the interval",
        )
    return Alternative(
        option=str(event.before),
        score=event.growth,
        lost_because=f"its loss changed {percent(event.growth)}, not less than α = {percent(alpha)}",
        wins_if=f"its loss had changed less than {percent(alpha)} in the interval",
    )


def _nodes(event: c.ClusterEvent, because: c.Because) -> Iterator[Alternative]:
    """The nodes that a decision compared by their scores, but the one that it chose."""
    if isinstance(event, c.PlacementPlanned):
        return
    chosen = getattr(event, "target", None) or getattr(event, "node", None)
    by_name = {seen.node: seen for seen in because.nodes}
    won = by_name.get(chosen or "")
    for seen in because.nodes:
        if won is None or seen is won:
            continue
        if seen.rejected:
            yield Alternative(
                option=seen.node,
                lost_because=seen.rejected,
                wins_if=f"that were not so, and its score below {won.score:g}",
            )
        elif because.balance_factor is not None:
            yield Alternative(
                option=seen.node,
                score=seen.score,
                lost_because=f"it has {seen.replicas} jobs, more than the balance factor {because.balance_factor}",
                wins_if=f"it had {because.balance_factor} jobs or fewer",
            )
        else:
            yield _by_score(seen, won)


def _by_score(seen: c.NodeScore, won: c.NodeScore) -> Alternative:
    if seen.score > won.score:
        return Alternative(
            option=seen.node,
            score=seen.score,
            lost_because=f"its score {seen.score:g} is above {won.score:g}, that of {won.node}",
            wins_if=f"its score were below {won.score:g}",
        )
    return Alternative(
        option=seen.node,
        score=seen.score,
        lost_because=f"its score {seen.score:g} is not below that of {won.node}, which comes first by use or name",
        wins_if=f"its score were below {won.score:g}",
    )


def _spared(because: c.Because) -> Iterator[Alternative]:
    """The jobs that could have given way, and did not."""
    for one in because.preemption.others if because.preemption is not None else ():
        yield Alternative(
            option=f"{one.job} gives way",
            score=None if one.remaining_ms is None else float(one.remaining_ms),
            lost_because=one.spared or "others were chosen",
            wins_if="that were not so"
            if one.spared
            else "it cost less to suspend and to resume than those that gave way",
        )


def _moves(because: c.Because) -> Iterator[Alternative]:
    """Other moves that would have gained less."""
    for other in because.alternatives:
        gain = span(because.gain_ms or 0)
        yield Alternative(
            option=f"{other.job} to {other.target}",
            score=float(other.gain_ms),
            lost_because=f"it gains {span(other.gain_ms)}, and this one {gain}",
            wins_if=f"it gained more than {gain}",
        )


def _places(view: ClusterView, event: c.PlacementPlanned) -> Iterator[Alternative]:
    """The other nodes for a job that waits, as they were when its plan took its place."""
    job = view.jobs.get(event.job)
    if job is None or job.spec.is_gang or not event.nodes or event.nodes[0] not in view.nodes:
        return
    wanted, chosen = job.spec.chief_requests, view.nodes[event.nodes[0]]
    afterwards = allocation(chosen.allocated, chosen.capacity)
    others = [node for node in view.nodes if node is not chosen]
    for node in others[:NODES_MOST]:
        if (refusal := no_room(wanted, node, job.node_rule)) is not None:
            yield Alternative(
                option=node.name,
                lost_because=room_sentence(refusal, wanted, node, node.name),
                wins_if="that were not so",
            )
            continue
        share = allocation(node.allocated + wanted, node.capacity)
        better = share < afterwards
        yield Alternative(
            option=node.name,
            score=share,
            lost_because=(
                f"{share:.0%} of it would be reserved, and {afterwards:.0%} of {chosen.name}"
                + ("; the rule prefers another node all the same" if better else "")
            ),
            wins_if=f"less than {afterwards:.0%} of it were reserved with the job"
            if not better
            else "the rule were spread",
        )


def _staying(event: c.TransitionPlanned) -> Alternative:
    return Alternative(
        option="it goes on where it is",
        lost_because=f"{event.room_for} is more urgent, and has no room without its",
        wins_if=f"{event.room_for} had room elsewhere, or were not more urgent",
    )


def _limits(view: ClusterView, event: c.LimitsPlanned, job: str) -> Iterator[Alternative]:
    """The other limit that FlowCon, or the policy ``steepest``, could have given a job."""
    mine = next((one for one in event.limits if one.job == job), None)
    seen = next((one for one in event.because.jobs if one.job == job), None)
    standing = next((one for one in event.because.standing if one.job == job), None)
    if mine is not None and seen is not None:
        yield _by_growth(event, mine, seen)
    elif mine is not None and standing is not None:
        yield _with_limit(view, event, standing) if mine.cpu_m is None else _without_limit(view, event, standing)


def _by_growth(event: c.LimitsPlanned, mine: c.JobLimit, seen: c.GrowthSeen) -> Alternative:
    if mine.cpu_m is None:
        return Alternative(
            option="a limit",
            score=seen.efficiency,
            lost_because=f"it is in {seen.before}, and its share of ΣG = {event.because.total:.4g} leaves it free",
            wins_if="its growth efficiency fell below α in two runs, while other jobs on the node still grew",
        )
    return Alternative(
        option=cpu_limit(None),
        score=seen.efficiency,
        lost_because=f"it is in {seen.before}, and others on {event.node} grow more for what they use",
        wins_if="its growth efficiency reached α, or all jobs on the node were completing",
    )


def _with_limit(view: ClusterView, event: c.LimitsPlanned, me: c.FairStanding) -> Alternative:
    """Why the policy ``steepest`` leaves a job unlimited."""
    all_here = event.because.standing
    short = [one for one in all_here if one.cpu_m < one.demand_m - ENOUGH_M and one.job != me.job]
    later = sorted((one for one in short if _turn(view, me) < _turn(view, one)), key=lambda one: _turn(view, one))
    uses = f"the {me.demand_m}m CPU that it can use"
    if all(one.left_ms is None for one in all_here):
        lost = f"it is unknown of all jobs on {event.node} how much is left: they share it fairly without limits"
        wins = "it were known of one of them how much is left"
    elif me.cpu_m < me.demand_m - ENOUGH_M:
        lost = "it is moved, or a limit of it was refused lately, so that none is set now"
        wins = "neither were so"
    elif not short:
        lost = f"all jobs on {event.node} have the CPU that they can use"
        wins = "they could use more than there is, and others came before it"
    elif me.left_ms is None:
        lost = f"it is unknown how much of it is left, and under fair sharing it gets {uses}"
        wins = "its share under fair sharing were less"
    elif me.must_m >= me.demand_m - ENOUGH_M:
        lost = f"it needs {uses} to end when it is due"
        wins = "it were due later, and its index below that of the others"
    elif later:
        lost = f"it has {uses} before {_some([_worth(one) for one in later])}; its own index is {_index(me):.3g}"
        wins = f"its index fell below {_index(later[0]):.3g}, that of {later[0].job}, and it were due later"
    else:
        lost = f"it has {uses}"
        wins = "others came before it"
    return Alternative(option="a limit", score=_score(me), lost_because=lost, wins_if=wins)


def _without_limit(view: ClusterView, event: c.LimitsPlanned, me: c.FairStanding) -> Alternative:
    """Why the policy ``steepest`` does not let a job have all that it can use."""
    if me.left_ms is None:
        return Alternative(
            option=cpu_limit(None),
            lost_because="it is unknown how much of it is left, so it keeps up with fair sharing and gets no more",
            wins_if="it, its log or its user announced its total, and its index were above that of the others",
        )
    others = [one for one in event.because.standing if one.job != me.job]
    pressing = [one for one in others if one.left_ms is not None and one.must_m]
    fairly = [one.job for one in others if one.left_ms is None and one.cpu_m]
    before = sorted(
        (
            one
            for one in others
            if one.left_ms is not None and one.cpu_m > one.must_m and _turn(view, one) < _turn(view, me)
        ),
        key=lambda one: _turn(view, one),
    )
    lost, wins = [], []
    if before:
        first = before[0]
        lost.append(
            f"what is to spare goes first to {_some([_worth(one) for one in before])}, and its own index is {_index(me):.3g}"
        )
        urgent = f"it were as urgent as {first.job}, and " if _priority(view, first) > _priority(view, me) else ""
        wins.append(f"{urgent}its index were above {_index(first):.3g}, that of {first.job}")
    if pressing:
        lost.append(f"cannot wait: {_some([_due(one, me) for one in pressing])}")
        wins.append(f"the work of {_some([one.job for one in pressing])} could wait")
    if fairly:
        lost.append(f"of unknown size, and kept up with fair sharing: {_some(fairly)}")
    if not lost:
        lost.append(f"the jobs on {event.node} can use more CPU than there is")
    wins.append("it were due so soon that none of its own work could wait")
    return Alternative(
        option=cpu_limit(None), score=_score(me), lost_because="; ".join(lost), wins_if=", or ".join(wins)
    )


def _turn(view: ClusterView, one: c.FairStanding) -> tuple[int, float, str]:
    """Key of the order in which jobs get slack, ascending."""
    return -_priority(view, one), -_index(one), one.job


def _priority(view: ClusterView, one: c.FairStanding) -> int:
    job = view.jobs.get(one.job)
    return 0 if job is None else job.spec.priority


def _index(one: c.FairStanding) -> float:
    """Value of 1000 s of CPU; 0 where it is unknown."""
    return 1000 * (one.index or 0.0)


def _score(one: c.FairStanding) -> float | None:
    return None if one.index is None else _index(one)


def _worth(one: c.FairStanding) -> str:
    return f"{one.job} (of unknown size)" if one.left_ms is None else f"{one.job} (index {_index(one):.3g})"


def _due(one: c.FairStanding, me: c.FairStanding) -> str:
    """The minimum that a job needs now, and its due time relative to another job's."""
    needs = f"{one.must_m}m CPU of {one.job}"
    if one.due_ms is None or me.due_ms is None:
        return needs
    ahead_ms = me.due_ms - one.due_ms
    return f"{needs}, due {span(abs(ahead_ms))} {'before' if ahead_ms >= 0 else 'after'} it"


def _some(texts: Sequence[str]) -> str:
    """The first of some texts, and how many more there are."""
    more = len(texts) - NAMED_MOST
    return ", ".join([*texts[:NAMED_MOST], *([f"{more} more"] if more > 0 else [])])

"""Why Algorithm 4 does not decide about a job yet: its request for another place stays open.

It owns the conditions before the search for a target, in the order in which they are asked; the decider and the people who
ask ``steepest explain`` get the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from steepest.policies.flowcon.with_specon import not_yet
from steepest.view.cluster_view import ClusterView
from steepest.view.refusal import Refusal, first
from steepest.view.state import Job


class Undecided(Refusal):
    """Why a request for another place is left open; what FlowCon has against it is asked before the guard."""

    MOVES_OFF = "moves-off", "moves are switched off"
    NO_PROCESS = "no-process", "no process of it runs"
    IS_GANG = "is-gang", "it is a gang, and Algorithm 4 moves jobs of one replica"
    PLAN_IN_FLIGHT = "plan-in-flight", "a plan is in flight for it"
    DECIDED_BEFORE = (
        "decided-before",
        "Algorithm 4 has decided about it; Algorithm 5 may still move it to a node with fewer jobs",
    )
    GUARD = (
        "guard",
        "it stays until two jobs on its node still grow: until then no job would gain from its leaving (the guard)",
    )


OPEN: Mapping[Undecided, Callable[[ClusterView, Job], bool]] = {
    Undecided.MOVES_OFF: lambda view, _: not view.parameters.moves,
    Undecided.NO_PROCESS: lambda _, job: not job.alive,
    Undecided.IS_GANG: lambda _, job: job.spec.is_gang,
    Undecided.PLAN_IN_FLIGHT: lambda _, job: job.plan is not None,
    Undecided.DECIDED_BEFORE: lambda _, job: job.migrated,
}

GUARDED: Mapping[Undecided, Callable[[ClusterView, Job], bool]] = {
    Undecided.GUARD: lambda view, job: view.parameters.specon.guard and view.nodes[job.nodes[0]].growing <= 1
}
"""Algorithm 3 line 15: |PC| + |WC| > 1 on the job's node, or no job there would gain."""


def undecided(view: ClusterView, job: Job) -> Refusal | None:
    """Why a job's request for another place is left open; None where Algorithm 4 decides about it."""
    return first(OPEN, view, job) or not_yet(view, job) or first(GUARDED, view, job)

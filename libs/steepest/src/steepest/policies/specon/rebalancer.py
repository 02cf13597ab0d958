"""SpeCon Algorithm 5: once every active job is decided, converged jobs go where workers are idle.

The reading of the printed pseudo-code (thesis §5.2.3):

* *When.* Every active job is decided or converged; then at every event that may change the balance. The text asks for
  ``migrated`` on all of them, "all in CC"; but the guard of Algorithm 3 leaves the last converged jobs undecided for ever,
  so being in CC is what counts. A running job of which no growth was measured yet counts as growing for
  ``GRACE_INTERVALS`` intervals from its start, and not any longer, or one job that never prints a loss would switch
  rebalancing off; then it is unknown. The paper does not know such jobs.
* *Balance factor.* bf = ⌊Σ|w| / |W|⌋ (the brackets are lost in print), with the rule of ``BalanceRule``. A job whose growth
  is unknown counts in |w|, because it takes room.
* *Idle workers* (|T| > 0): each is filled up to bf, from workers with more than bf, the most recently converged job
  (smallest d = now − t_converged) first; line 12 says ``if`` where the 904.5 s example needs ``while``.
* *Otherwise* (T = ∅): workers below bf − 1 receive. The print fills each only while |w| < bf − 1 (T:677); here it is
  filled up to bf as in the first branch, because a worker with bf − 1 jobs is still below the balance that the algorithm
  seeks. Line 27 migrates to w_i, not to w_j.
* *t_c* is when the job converged (T:618, and the worked example); T:627 has "marked as migrated", which would rank a job
  by when Algorithm 4 decided about it, and leave without a rank the jobs that the guard keeps undecided.
* A job is moved at most once by this algorithm, after at most one move by Algorithm 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from steepest.events import cluster as c
from steepest.events.parameters import BalanceRule
from steepest.events.received import Received
from steepest.policies.flowcon import with_specon
from steepest.policies.pending import Pending
from steepest.policies.specon.score import seen
from steepest.view.cluster_view import ClusterView
from steepest.view.jobs import GRACE_INTERVALS
from steepest.view.places.node_rules import is_allowed
from steepest.view.state import Job, Node


class Rebalancer:
    """Moves converged jobs to idle workers."""

    name = "rebalancer"
    logic = 1
    reads: frozenset[type] = frozenset(
        {c.MigrationPlanned, c.Tick, c.JobEnded, c.NodeJoined, c.StayDecided, c.MigrationFinished}
    )
    state_type = Pending

    def __init__(self, state: Pending | None = None) -> None:
        self.state = state or Pending()

    def reconsider(self, event: c.ClusterEvent) -> None:
        """See ``ClusterDecider.reconsider``: the next trigger computes the balance again."""
        if isinstance(event, c.MigrationPlanned):
            self.state.read_back(event.plan)

    def step(self, view: ClusterView, received: Received[c.ClusterEvent]) -> Sequence[c.ClusterEvent]:
        """What follows from a record: as many moves as the balance asks for."""
        match received.event:
            case c.MigrationPlanned(plan=plan):
                self.state.read_back(plan)
            case c.Tick() | c.JobEnded() | c.NodeJoined() | c.StayDecided() | c.MigrationFinished():
                if _all_decided(view):
                    return tuple(self._moves(view, received.offset))
        return ()

    def _moves(self, view: ClusterView, offset: int) -> Iterator[c.MigrationPlanned]:
        factor = balance_factor(view)
        busiest = view.nodes.busiest()
        if busiest is None or busiest.count <= factor:
            return  # no worker can spare a job
        donors = [job for job in view.jobs.most_recently_converged() if self._can_spare(view, job, factor)]
        if not donors:
            return
        made = 0
        for target in self._receivers(view, factor):
            while self.state.count(target) < factor and (job := self._donor(view, donors, target, factor)) is not None:
                yield self._move(view, job, target, factor, f"rebalance-{offset}-{made}")
                made += 1

    def _receivers(self, view: ClusterView, factor: int) -> list[Node]:
        """T: idle workers; where none is idle, workers with less than bf − 1 jobs."""
        idle = self._below(view, 1)
        return idle or self._below(view, factor - 1)

    def _below(self, view: ClusterView, count: int) -> list[Node]:
        """Workers with fewer than ``count`` jobs, plans under way included, and without taints: few jobs may come there."""
        found = []
        for node in view.nodes.by_count():
            if node.count >= count:
                break
            if self.state.count(node) < count and not node.taints:
                found.append(node)
        return found

    def _donor(self, view: ClusterView, donors: Sequence[Job], target: Node, factor: int) -> Job | None:
        """c_j: the most recently converged job that a worker with more than bf jobs can spare for ``target``."""
        free = self.state.free(target)
        for job in donors:
            if (
                job.nodes[0] != target.name
                and self._can_spare(view, job, factor)
                and job.spec.chief_requests.fits(free)
                and is_allowed(job.node_rule, target)
                and with_specon.pays(view, job, target, self.state.count(target))
            ):
                return job
        return None

    def _can_spare(self, view: ClusterView, job: Job, factor: int) -> bool:
        """Whether a job may leave its worker, wherever it goes. While moves are planned, ever fewer may."""
        if not job.nodes or self.state.concerns(job):
            return False
        source = view.nodes[job.nodes[0]]
        return not source.lost and self.state.count(source) > factor

    def _move(self, view: ClusterView, job: Job, target: Node, factor: int, plan: str) -> c.MigrationPlanned:
        source = view.nodes[job.nodes[0]]
        because = c.Because(
            rule="Algorithm 5: a worker below the balance factor gets the most recently converged job",
            nodes=(seen(view, target, self.state), seen(view, source, self.state)),
            balance_factor=factor,
            converged_ms=view.counted_ms - job.converged_counted_ms,
            move_ms=view.move_ms(job, source.name, target.name),
        )
        self.state.add(plan, job, source.name, target.name)
        return c.MigrationPlanned(
            plan=plan,
            job=job.name,
            incarnation=job.incarnation,
            source=source.name,
            target=target.name,
            kind=c.MoveKind.REBALANCE,
            because=because,
        )


def balance_factor(view: ClusterView) -> int:
    """Bf = ⌊Σ|w| / |W|⌋ over the workers that are not lost."""
    workers = len(view.nodes)
    factor = view.nodes.replicas // workers if workers else 0
    return max(1, factor) if view.parameters.specon.balance_rule is BalanceRule.AT_LEAST_ONE else factor


def _all_decided(view: ClusterView) -> bool:
    """Whether every active job is decided or converged."""
    if not view.parameters.moves or view.jobs.undecided:
        return False
    newest = view.jobs.newest_silent_counted_ms()
    grace = GRACE_INTERVALS * view.parameters.specon.interval_ms
    return newest is None or view.counted_ms - newest >= grace

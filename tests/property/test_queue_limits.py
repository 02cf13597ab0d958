"""Whatever deciders plan, and whoever else does: no record lets the jobs of a queue or user hold more than their limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import event as note
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled
from tests.harness.scenarios.folded_pool import cancelled, joined, migration, placement, submitted, transition
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, PreemptionLimits, QueueLimits, QueueParameters
from steepest.events.received import Received
from steepest.events.requests import Role
from steepest.invariants import Status, check_with
from steepest.invariants.checkers.capacity import Capacity
from steepest.invariants.checkers.queue_limits import QueueLimitsKept
from steepest.policies.deciders import CLUSTER_DECIDERS
from steepest.policies.named import POLICIES, under
from steepest.view.state import Job, Phase, PlanKind

NODES = ("w1", "w2", "w3")
QUEUES = ("paper", "course", "free")
USERS = ("alice", "bob", "")
ACCOUNTS = (*(f"queue {queue}" for queue in QUEUES), "user alice", "user bob")
LIMITED: tuple[Any, ...] = ({"queue": "paper"}, {"queue": "course"}, {"user": "alice"}, {"user": "*"})
RESOURCES = ("replicas", "cpu_m")
LIMITS = st.tuples(*(st.tuples(st.none() | st.integers(0, 4), st.none() | st.integers(0, 900)) for _ in LIMITED))
CONFIGURED = st.tuples(st.sampled_from(sorted(POLICIES)), st.booleans(), st.booleans(), LIMITS)
SIZES = st.sampled_from([(), (1, 1, 1), (2, 2, 2), (1, 2, 4), (1, 3, 3), (2, 3, 4)])
ACTS = st.one_of(
    st.tuples(
        st.just("submit"),
        st.sampled_from([100, 200, 400]),
        SIZES,
        st.sampled_from(QUEUES),
        st.integers(-1, 1),
        st.booleans(),
    ),
    st.tuples(st.just("configure"), CONFIGURED),
    st.tuples(st.just("tick"), st.sampled_from([1_000, 1_000, 5_000, 40_000])),
    st.tuples(st.just("act"), st.integers(0, 7)),
    st.tuples(st.just("carry"), st.integers(0, 7)),
    st.tuples(st.just("carry"), st.integers(0, 7)),
    st.tuples(st.just("fail"), st.integers(0, 7), st.booleans()),
    st.tuples(st.just("exit"), st.integers(0, 7), st.integers(0, 3), st.sampled_from([0, 1, None])),
    st.tuples(st.just("cancel"), st.integers(0, 7)),
    st.tuples(st.just("join"), st.sampled_from(NODES), st.sampled_from([300, 800, 1_200])),
    st.tuples(st.just("lose"), st.sampled_from(NODES), st.booleans()),
    st.tuples(st.just("lag"), st.integers(0, 4)),
    st.tuples(
        st.just("plan"),
        st.integers(0, 7),
        st.sampled_from([*c.Transition, "place", "move"]),
        st.lists(st.sampled_from(NODES), min_size=1, max_size=4),
        st.integers(0, 7),
    ),
)


class Watched(DeciderDriver):
    """All deciders of a pool; at every record, what its queues hold is looked at the slow way."""

    def __init__(self) -> None:
        self.lag = 0
        super().__init__(*(kind() for kind in CLUSTER_DECIDERS.values()), delay=lambda: self.lag, w1=800, w2=400)

    def step(self, received: Received[c.ClusterEvent]) -> Any:
        """The engine's step, and what it must not do."""
        before = {account: self.held(account) for account in ACCOUNTS}
        minted = super().step(received)
        limits = {limits.account: limits for limits in self.view.parameters.queueing.limits}
        for account in ACCOUNTS:
            held = self.held(account)
            use = self.view.jobs.use.of(account)
            assert (use.replicas, use.cpu_m) == held, (account, received.event)
            for name, now, then in zip(RESOURCES, held, before[account], strict=True):
                most = getattr(limits.get("user *" if account == "user bob" else account), name, None)
                assert most is None or now <= most or now <= then, (account, name, received.event)
        return minted

    def held(self, account: str) -> tuple[int, int]:
        """Replicas and CPU that the jobs of a queue or user hold, or will by their plans."""
        most = [
            max(self.sizes(job)) for job in self.view.jobs if account in {f"queue {job.spec.queue}", f"user {job.user}"}
        ]
        return sum(replicas for replicas, _ in most), sum(cpu_m for _, cpu_m in most)

    def sizes(self, job: Job) -> Iterator[tuple[int, int]]:
        """Replicas and CPU of a job now, and by its plan; all replicas of a job ask for the same."""
        plan, cpu_m = self.view.plan_of(job), job.spec.chief_requests.cpu_m
        counts = [len(job.running_on)]
        if plan is not None and plan.kind not in {PlanKind.CANCEL, PlanKind.CLEAR}:
            counts += [len(plan.targets), sum(plan.source_sizes) if plan.sources and plan.source_sizes else 0]
            counts += [1] if plan.sources and not job.spec.is_gang else []
        if not job.spec.is_gang and job.phase is Phase.RUNNING:
            counts = [1]
        return ((count, count * cpu_m) for count in counts)


def configured(policy: str, preempt: bool, blocking: bool, limits: Any) -> c.PoolConfigured:  # noqa: FBT001 - drawn
    """A pool under a policy, whose first queues and whose users have limits."""
    limited = tuple(
        QueueLimits(**whose, replicas=replicas, cpu_m=cpu_m)
        for whose, (replicas, cpu_m) in zip(LIMITED, limits, strict=True)
    )
    queueing = QueueParameters(policy="priority", preempt=preempt, blocking=blocking, limits=limited)
    parameters = PoolParameters(queueing=queueing, preemption=PreemptionLimits(min_run_ms=0), retry_hold_ms=1)
    return c.PoolConfigured(parameters=under(policy, parameters))


@given(st.lists(ACTS, min_size=20, max_size=80), CONFIGURED)
@settings(max_examples=scaled(120), deadline=None)
def test_no_record_lets_a_queue_hold_more_than_its_limit(acts: list[tuple[Any, ...]], first: Any) -> None:
    """Deciders at neighbouring records, plans that wait, limits that change, gangs that are scaled: the view keeps them."""
    pool = Watched()
    pool.fold(configured(*first))
    for number, (kind, *what) in enumerate(acts):
        play(pool, kind, what, number)
    note(f"plans void for a limit: {sum(plan.code == 'over-limit' for plan in pool.view.state.plans.values()) > 0}")
    for verdict in check_with([QueueLimitsKept, Capacity], pool.log):
        assert verdict.status is Status.HOLDS, verdict


def play(pool: Watched, kind: str, what: list[Any], number: int) -> None:
    """One act."""
    match kind, what:
        case "submit", [cpu_m, sizes, queue, priority, may_leave]:
            user = USERS[number % len(USERS)]
            pool.fold(job_of(f"job-{number}", cpu_m, sizes, queue, priority, may_leave=may_leave, user=user))
        case "configure", [parameters]:
            pool.fold(configured(*parameters))
        case "tick", [ms]:
            pool.tick(ms)
        case "join", [node, cpu_m]:
            pool.fold(joined(node, cpu_m))
        case "lose", [node, is_gone]:
            pool.fold(c.NodeLost(node=node, silent_ms=1))
            if is_gone:
                pool.fold(c.NodeGone(node=node))
        case "lag", [records]:
            pool.lag = records
        case _, [which, *more]:
            active = sorted(job.name for job in pool.active())
            if active:
                about(pool, kind, pool.job(active[which % len(active)]), more, active)


def job_of(
    name: str, cpu_m: int, sizes: tuple[int, ...], queue: str, priority: int, *, may_leave: bool, user: str
) -> c.JobSubmitted:
    """A job of one replica, or a gang that starts with so many, and may run with fewer and more."""
    roles: tuple[Role, ...] = ()
    if sizes:
        fewest, replicas, most = sizes
        requests = Resources(cpu_m=cpu_m)
        roles = (Role(name="w", replicas=replicas, min=fewest, max=most, requests=requests, may_leave=may_leave),)
    success = c.SuccessRule.CHIEF if may_leave else c.SuccessRule.ALL
    return submitted(name, cpu_m, queue=queue, priority=priority, roles=roles, success=success, retries=9, user=user)


def about(pool: Watched, kind: str, job: Job, more: list[Any], active: list[str]) -> None:
    """Something happens to a job, if it can."""
    match kind, more:
        case "act", []:
            if job.plan is not None:
                pool.act(job.name)
        case "carry", []:
            pool.carry_out(job.name)
        case "fail", [definite]:
            plan = pool.view.plan_of(job)
            if plan is not None and plan.step is not None and isinstance(pool.next_action(job.name), c.StepBegun):
                pool.fail(job.name, definite=definite)
        case "exit", [replica, status] if job.alive and replica < len(job.nodes):
            pool.fold(pool.stopped(job.name, status, replica=replica))
        case "cancel", []:
            pool.fold(cancelled(job.name))
        case "plan", [str() as how, nodes, other]:
            pool.fold(by_hand(job, how, tuple(nodes), active[other % len(active)], f"plan-{len(pool.log)}"))


def by_hand(job: Job, how: str, nodes: tuple[str, ...], other: str, plan: str) -> c.ClusterEvent:
    """A plan of nobody's, which may be valid."""
    sizes = (len(nodes),) if job.spec.is_gang else ()
    if how == "place":
        return placement(
            job.name, *(nodes if sizes else nodes[:1]), plan=plan, incarnation=job.incarnation, sizes=sizes
        )
    if how == "move":
        return migration(job.name, job.node or "w1", nodes[0], plan=plan, incarnation=job.incarnation)
    kind = c.Transition(how)
    suspends = kind is c.Transition.SUSPEND
    made = transition(
        job.name,
        kind,
        job.running_on,
        *(() if suspends else nodes),
        plan=plan,
        incarnation=job.incarnation,
        sizes=() if suspends else sizes,
        room_for=other if suspends and other != job.name else None,
    )
    return made if kind is not c.Transition.SHED else msgspec.structs.replace(made, leaving=(1,))

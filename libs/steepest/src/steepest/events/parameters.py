"""The parameters of a pool. They are events too (``PoolConfigured``): a replay knows which were in force when."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from steepest.events.common import Count, Name, Positive, Priority
from steepest.events.dragon_parameters import DragonParameters
from steepest.events.growth import Reaction


class Normalisation(enum.StrEnum):
    """The reference of growth: α is a percentage, while the printed G is an absolute difference."""

    MAX = "max"  # each value divided by the largest magnitude so far, as FlowCon's authors do
    SETTLED = "settled"  # likewise, without spikes: magnitudes far beyond all before that do not last
    NONE = "none"  # the bare difference, as SpeCon's Algorithm 3 prints it


class RequestTick(enum.StrEnum):
    """When a job that has just converged asks for its reallocation (Algorithm 3, last branch)."""

    NEXT = "next"  # at the next interval that is still below α: the earliest request comes after four intervals
    SAME = "same"  # in the interval in which it became CC


class BalanceRule(enum.StrEnum):
    """How Algorithm 5 rounds the balance factor bf = Σ|w| / |W|."""

    AT_LEAST_ONE = "at-least-one"  # max(1, ⌊·⌋): an idle worker gets work also where jobs are fewer than workers
    FLOOR = "floor"  # ⌊·⌋, as printed


class Threshold(enum.StrEnum):
    """Where the categorizer's threshold α comes from."""

    FIXED = "fixed"  # the parameter, as in SpeCon
    FITTED = "fitted"  # what the job's own growth so far lets expect: the variant ``specon-adaptive``


class SpeConParameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """SpeCon's parameters (thesis §6.2 and Algorithms 3–5); defaults are the thesis's and the reading of its flaws.

    Attributes:
        alpha: Growth threshold α of an interval; a share of the largest value where ``normalisation`` is ``max``. A job
            moves towards convergence where it grew by less than α and by less than in the interval before.
        interval_ms: Length of an interval (``itval``).
        weight_pc: Weight w_pc of a progressing job in a worker's score.
        weight_wc: Weight w_wc of a watched one, and of one whose growth is unknown.
        weight_cc: Weight w_cc of a converged one.
        guard: Algorithm 3 line 15: no move unless |PC| + |WC| > 1 on the job's worker.
        threshold: Whether ``alpha`` is used, or one fitted to the job's own growth.
    """

    alpha: Annotated[float, msgspec.Meta(gt=0)] = 0.01
    interval_ms: Positive = 30_000
    weight_pc: float = 2.0
    weight_wc: float = 1.5
    weight_cc: float = 1.0
    normalisation: Normalisation = Normalisation.MAX
    request_tick: RequestTick = RequestTick.NEXT
    guard: bool = True
    balance_rule: BalanceRule = BalanceRule.AT_LEAST_ONE
    threshold: Threshold = Threshold.FIXED


class Resource(enum.StrEnum):
    """The reference of growth efficiency."""

    CPU = "cpu"
    MEMORY = "memory"
    BLOCK_IO = "block-io"
    NETWORK_IO = "network-io"


class ProgressUnit(enum.StrEnum):
    """The unit of FlowCon's progress, and so of its threshold α, which the thesis calls a percentage of growth."""

    SECOND = "second"  # as printed: |E(t_i) − E(t_(i−1))| / (t_i − t_(i−1))
    INTERVAL = "interval"  # that times the length of an interval


class FlowConParameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """FlowCon's parameters (thesis §5.1 and §6.1, and its authors' code); the defaults are theirs, except the cap.

    Attributes:
        on: Whether FlowCon limits jobs at all.
        alpha: Threshold α of growth efficiency, in the unit that ``per`` gives, for a whole node's worth of use.
        per: The unit of progress.
        interval_ms: Time between two runs on a node (``itval``), and the span that each looks at. Rounded up to a
            multiple of SpeCon's interval, because progress is made of the categorizer's buckets.
        most_doublings: How often the interval is doubled while all jobs of a node complete. The authors have no such cap.
        resources: What efficiency is measured against: of these, the one of which a job uses the largest share of its
            node. Those that are not measured for every job on a node are left out there.
        granularity_m: CPU limits are rounded down to multiples of this, in millicores. The authors' are whole cores.
    """

    on: bool = False
    alpha: Annotated[float, msgspec.Meta(gt=0)] = 0.03
    per: ProgressUnit = ProgressUnit.SECOND
    interval_ms: Positive = 30_000
    most_doublings: Annotated[int, msgspec.Meta(ge=0, le=20)] = 5
    resources: tuple[Resource, ...] = (Resource.CPU,)
    granularity_m: Positive = 1


class SteepestParameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Parameters of the policy ``steepest`` (:mod:`steepest.policies.steepest`).

    Attributes:
        on: Whether it limits and moves jobs at all; FlowCon limits none then.
        learning_weight: λ: the value of a job's learning, as a share of the value of the whole job; the rest is that of
            its end. 0 is shortest remaining time first, within what the fair ends allow.
        lateness: How much later than its fair end a job is due, as a share of its fair completion time.
        slot_ms: What cannot wait for so long must run now.
        floor: Share of a node that is divided among all its jobs, so that each keeps reporting.
        plan_every_ms: The longest time between two plans of a node with jobs, in counted time.
        least_change: A limit that changes by less than this share of the node is not set again.
        stay_ms: Counted time for which the limits of a node stay after a change, as long as they do.
        young_ms: How long a job whose speed or demand was never measured runs ahead of the others.
        move_cost_ms: The least assumed cost of a move or suspension to a job; it is higher where earlier ones took longer.
        pays: A move is worth it where it gains this many times its cost.
        dwell_ms: Counted time for which a job stays after a move.
        device_slot_ms: The longest time between two decisions about GPUs while jobs wait for them. What cannot wait for so
            long must run.
    """

    on: bool = False
    learning_weight: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.45
    lateness: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.03
    slot_ms: Positive = 5_000
    floor: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.02
    plan_every_ms: Positive = 2_000
    least_change: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.04
    stay_ms: Count = 12_000
    young_ms: Count = 8_000
    move_cost_ms: Positive = 6_000
    pays: Annotated[float, msgspec.Meta(gt=0)] = 4.0
    dwell_ms: Count = 60_000
    device_slot_ms: Positive = 60_000


class PreemptionRule(enum.StrEnum):
    """Which running jobs give way to waiting ones; all rules are charged the same suspensions and resumptions."""

    PICKYMAN = "pickyman"  # where more waiting is saved than the suspension and the resumption cost
    NONE = "none"  # none do: run times and overheads are predicted, and that is all
    SRTF = "srtf"  # those with a longer predicted remaining time; the cost of their suspension is not looked at
    TIRESIAS = "tiresias"  # those that have attained more service, by levels
    ROUND_ROBIN = "round-robin"  # those that have had their time slice, as in Gandiva


class PickyManParameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Parameters of PickyMan (:mod:`steepest.policies.pickyman`), a reconstruction of a paper with a public abstract only.

    Attributes:
        on: Whether run times and overheads are predicted, and jobs preempted by ``rule``.
        rule: Which running jobs give way to waiting ones.
        profiles: Profiled jobs of a model from which on the time model is fitted; the paper's are four.
        pays: A preemption is worth it where it saves this many times the waiting that it costs.
        slice_ms: Counted time for which a job keeps its place under ``round-robin``.
        waiting: The most waiting jobs that one plan considers; where more ask for different things, half of them in turns.
        storage_bytes_s: Bandwidth at which all jobs together read from the storage; None: it is learned from what is
            measured.
    """

    on: bool = False
    rule: PreemptionRule = PreemptionRule.PICKYMAN
    profiles: Positive = 4
    pays: Annotated[float, msgspec.Meta(gt=0)] = 1.0
    slice_ms: Positive = 60_000
    waiting: Positive = 16
    storage_bytes_s: Positive | None = None


class MoveLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How long the steps of a move may take, and how often they are tried.

    Attributes:
        checkpoint_timeout_ms: From asking to the acknowledgement.
        hold_ms: How long a process waits for its stop after a checkpoint on request.
        stop_grace_ms: From SIGTERM to SIGKILL.
        verify_timeout_ms: From the start to the first step reported.
        tries: Definite failures of one step before the way back is taken.
        moves_failed: Failed moves of a job after which it is left where it is.
    """

    checkpoint_timeout_ms: Positive = 60_000
    hold_ms: Positive = 30_000
    stop_grace_ms: Positive = 30_000
    verify_timeout_ms: Positive = 120_000
    tries: Positive = 2
    moves_failed: Positive = 2


class PriorityClass(msgspec.Struct, frozen=True):
    """A name that users may give in place of a priority; it is resolved when a job is submitted."""

    name: Name
    priority: Priority


PRIORITY_CLASSES = (
    PriorityClass("low", -100),
    PriorityClass("normal", 0),
    PriorityClass("high", 100),
    PriorityClass("urgent", 1000),
)


def accounts(queue: str | None, user: str) -> tuple[str, ...]:
    """Where what a job holds is counted: its queue, and its user where one is known."""
    return (*((f"queue {queue}",) if queue else ()), *((f"user {user}",) if user else ()))


EACH_USER = "*"
"""In place of a user: each one without limits of its own."""


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The most that the jobs of a queue, or those of a user, may hold together; None: no limit.

    Attributes:
        queue: The queue; None: they are a user's.
        user: The user, or :data:`EACH_USER`.
        jobs: Jobs that are not over; a further one is rejected.
        replicas: Processes.
        cpu_m: CPU that they reserve, in millicores.
        memory_mib: Memory that they reserve.
        gpu_m: GPUs that they reserve, whole ones and shares, in thousandths.
    """

    queue: Name | None = None
    user: Annotated[str, msgspec.Meta(pattern=r"^(\*|[A-Za-z0-9_][A-Za-z0-9._@+-]{0,62})?$(?!\n)")] = ""
    jobs: Count | None = None
    replicas: Count | None = None
    cpu_m: Count | None = None
    memory_mib: Count | None = None
    gpu_m: Count | None = None

    @property
    def account(self) -> str:
        """Whose they are."""
        return accounts(self.queue, self.user)[0]


class QueueParameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """In which order waiting jobs are placed, and which must wait although there is room.

    Attributes:
        policy: Name of the queue policy.
        blocking: Whether a job for which there is no room holds back those behind it; otherwise they are tried.
        preempt: Whether a waiting job may have running ones of lower priority suspended; under ``priority`` only.
        limits: Those of the queues and users that have any.
        classes: The priorities that have names.
        service_s: Attained service at which ``tiresias`` moves a job to its next level, in seconds of a GPU, or of a core
            where it has no GPUs; the defaults are those of the simulator published with the paper.
        half_life_ms: Counted time in which what a user has used counts half, under ``fair``.
    """

    policy: str = "fifo"
    blocking: bool = False
    preempt: bool = False
    limits: tuple[QueueLimits, ...] = ()
    classes: tuple[PriorityClass, ...] = PRIORITY_CLASSES
    service_s: tuple[Positive, ...] = (3_250, 7_200)
    half_life_ms: Positive = 86_400_000

    def limits_on(self, account: str) -> QueueLimits | None:
        """The limits of a queue or user, as :func:`accounts` spells it, if it has any."""
        found = {one.account: one for one in self.limits}
        of_each = found.get(f"user {EACH_USER}") if account.startswith("user ") else None
        return found.get(account, of_each)


class PreemptionLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The protection of a running job from suspensions, under every policy that plans them.

    Attributes:
        min_run_ms: Counted time for which a job runs, from each of its starts, before it may be suspended.
        max_suspensions: Suspensions of a job after which it is suspended no more.
    """

    min_run_ms: Count = 60_000
    max_suspensions: Count = 5


class WatchParameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the pool does about findings of jobs that do not say it themselves (:mod:`steepest.policies.watch`).

    Attributes:
        drains: Whether a node on which several jobs are slower for long is closed to new jobs, and left by those that gain.
        restarts: Restarts of a job because of findings; after that many it has failed.
    """

    hung: Reaction = Reaction.NOTIFY
    diverged: Reaction = Reaction.NOTIFY
    idle: Reaction = Reaction.NOTIFY
    drains: bool = False
    restarts: Count = 3


class PoolParameters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that deciders of a pool need to know, except what happens.

    Attributes:
        tick_ms: Period of the pool's clock.
        placement: Name of the placement policy.
        moves: Whether SpeCon moves jobs at all; the comparison run of the demo does not.
        node_lost_ms: Counted silence after which a node is lost.
        settle_ms: Counted time for which a job that fits no node known so far waits before it is rejected.
        retry_hold_ms: Counted time before the first retry of a failed job; doubles each time.
    """

    tick_ms: Positive = 1_000
    placement: str = "spread"
    moves: bool = True
    specon: SpeConParameters = SpeConParameters()
    limits: MoveLimits = MoveLimits()
    node_lost_ms: Positive = 15_000
    settle_ms: Count = 5_000
    retry_hold_ms: Count = 1_000
    flowcon: FlowConParameters = FlowConParameters()
    queueing: QueueParameters = QueueParameters()
    steepest: SteepestParameters = SteepestParameters()
    preemption: PreemptionLimits = PreemptionLimits()
    pickyman: PickyManParameters = PickyManParameters()
    dragon: DragonParameters = DragonParameters()
    watch: WatchParameters = WatchParameters()

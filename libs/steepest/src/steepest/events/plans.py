"""The plans of deciders, and their reasons."""

from __future__ import annotations

import enum

import msgspec

from steepest.events.common import Count, Millis, Name, Positive, Text
from steepest.events.parameters import Resource


class NodeScore(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node as a decision saw it: its score, what it used, how many replicas it had."""

    node: Name
    score: float
    used_cpu_m: Count = 0
    replicas: Count = 0
    rejected: Text = ""
    """Why the node was out of the question; empty where it was not."""


class FairStanding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job compared with fair sharing, as the policy ``steepest`` saw it. Times are those of records.

    Attributes:
        cpu_m: The CPU that it is to have, in millicores.
        demand_m: The CPU that it can use.
        must_m: The CPU that it needs now in order to end when it is due.
        left_ms: CPU time that it still needs; None: unknown.
        fair_end_ms: When it would end, or has ended, under fair sharing; None: nothing says when.
        due_ms: The end that it is promised: its fair end, and a small share of its completion time.
        index: Value of a core-second given to it: of learning and of its end; of a gang's device-second.
        devices_m: GPUs of all its replicas, in thousandths, where a pool of devices was divided.
        tier: How often its promise was put off.
        place: Its place in the order in which gangs take devices, from 1.
    """

    job: Name
    cpu_m: Count
    demand_m: Count = 0
    must_m: Count = 0
    left_ms: Millis | None = None
    fair_end_ms: Millis | None = None
    due_ms: Millis | None = None
    index: float | None = None
    devices_m: Count = 0
    tier: Count = 0
    place: Count | None = None


class MoveOption(msgspec.Struct, frozen=True, omit_defaults=True):
    """A move that was compared with others.

    Attributes:
        gain_ms: Time that is gained by it after its cost; of a rescue, CPU time that would no longer be late.
    """

    job: Name
    target: Name
    gain_ms: Count


class VictimSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """A running job that a waiting one might take the place of, as a preemption planner saw it.

    Attributes:
        remaining_ms: Predicted time until it is trained; None: unknown.
        suspension_ms: Predicted time until it has saved and is stopped.
        resumption_ms: Predicted time from its next start to its first step.
        cost_ms: Waiting that its suspension adds, for itself and for the job that takes its place.
        spared: Why it keeps its place; empty where it does not.
    """

    job: Name
    remaining_ms: Millis | None = None
    suspension_ms: Millis = 0
    resumption_ms: Millis = 0
    cost_ms: Millis = 0
    spared: Text = ""


class PreemptionSeen(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The figures by which a preemption was weighed.

    Attributes:
        saves_ms: Waiting that it saves the job that room is made for.
        costs_ms: Waiting that it adds to its victims, and to the job itself until they are gone.
        victims: The jobs that give way, in the order in which they were chosen.
        others: Running jobs that might have given way instead, the cheapest first; at most 4 of them.
    """

    saves_ms: Millis = 0
    costs_ms: Millis = 0
    victims: tuple[VictimSeen, ...] = ()
    others: tuple[VictimSeen, ...] = ()


class Because(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The inputs of a decision, so that it can explain itself.

    Attributes:
        rule: The algorithm and branch that decided.
        nodes: The nodes looked at, best first; at most 16 of them.
        growing: |PC| + |WC| on the job's node, where the rule looks at it.
        balance_factor: bf of Algorithm 5, where the rule looks at it.
        converged_ms: Counted time since the job converged, where the rule looks at it.
        standing: How the job stands against fair sharing, where the rule looks at it.
        gain_ms: Time that the rule expects to gain, after the cost of the move; of a rescue, CPU time no longer late.
        move_ms: How long the move is predicted to take, from this decision to the first step at the new place, by those
            that were measured; None: too little is known of the checkpoint or of the nodes.
        alternatives: The next best moves under the same rule; at most 4 of them.
        preemption: What the preemption saves and costs, where the rule weighs that.
    """

    rule: Text
    nodes: tuple[NodeScore, ...] = ()
    growing: Count | None = None
    balance_factor: Count | None = None
    converged_ms: Millis | None = None
    standing: FairStanding | None = None
    gain_ms: Count | None = None
    move_ms: Millis | None = None
    alternatives: tuple[MoveOption, ...] = ()
    preemption: PreemptionSeen | None = None


class PlacementPlanned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Start a waiting or suspended job: ``nodes[i]`` is the node of replica i. ``incarnation`` is the one before it.

    Attributes:
        sizes: How many replicas of each role start; empty: as many as its roles name.
        after: The plans that make room for it: it starts when all of them have ended, and what they free is promised to it.
    """

    plan: Text
    job: Name
    incarnation: Count
    nodes: tuple[Name, ...]
    sizes: tuple[Count, ...] = ()
    after: tuple[Text, ...] = ()
    because: Because


class MoveKind(enum.StrEnum):
    """Which algorithm, or who, moves a job; a job is moved at most once by each of SpeCon's."""

    REALLOCATION = "reallocation"  # Algorithm 4
    REBALANCE = "rebalance"  # Algorithm 5
    STEEPEST = "steepest"  # the policy of that name, which may move a job again after a while
    REQUEST = "request"  # a user
    SLOW_NODE = "slow-node"  # the watcher, from a node that has become slow


class MigrationPlanned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Move one replica, checkpoint and all. ``incarnation`` is the one to be moved."""

    plan: Text
    job: Name
    replica: Count = 0
    incarnation: Count
    source: Name
    target: Name
    kind: MoveKind
    because: Because


class Transition(enum.StrEnum):
    """The action of a plan for a whole gang; it suspends a job of one replica as well."""

    SUSPEND = "suspend"  # save and stop all replicas; the job waits, at its own rank, to be resumed
    SCALE = "scale"  # save, stop, and start again with other numbers of replicas
    MOVE = "move"  # save, stop, and start again on other nodes
    SHED = "shed"  # stop surplus replicas; the others train on, and nothing starts again


class TransitionPlanned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """Bring a job from where its replicas are to where they should be, checkpoint and all.

    Attributes:
        incarnation: The one to be stopped, or of which replicas leave.
        sources: The node of each replica now.
        nodes: The node of each replica afterwards; empty where the job is suspended.
        sizes: How many replicas of each role there are afterwards; empty: as many as its roles name.
        after: The plans that make room for it: it begins when all of them have ended.
        room_for: The job that room is made for, if it is planned for one.
        leaving: The replicas that leave, in order; empty unless it sheds some.
    """

    plan: Text
    job: Name
    incarnation: Count
    kind: Transition
    sources: tuple[Name, ...]
    nodes: tuple[Name, ...] = ()
    sizes: tuple[Count, ...] = ()
    after: tuple[Text, ...] = ()
    room_for: Name | None = None
    leaving: tuple[Count, ...] = ()
    because: Because


class StayDecided(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The job requested another place, and its own is as good as any: it stays (Algorithm 4)."""

    job: Name
    incarnation: Count
    node: Name
    because: Because


class RetryPlanned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A job that stopped before it was done waits for a place again.

    Attributes:
        charged: Whether it counts against the job's retries.
        not_before_ms: Counted time before which it is not placed.
    """

    job: Name
    incarnation: Count
    charged: bool
    not_before_ms: Millis
    reason: Text


class GrowthList(enum.StrEnum):
    """FlowCon's three lists of a node's jobs, by growth efficiency (thesis §5.1.2, Algorithm 1)."""

    NEW = "NL"
    WATCHED = "WL"
    COMPLETING = "CL"


class JobLimit(msgspec.Struct, frozen=True, omit_defaults=True):
    """The CPU limit that an incarnation is to have.

    Attributes:
        growth_list: FlowCon's list that it is in from here on; None: another policy limits it.
        cpu_m: In millicores, of each of its replicas; None: no limit but the node's own.
    """

    job: Name
    incarnation: Count
    growth_list: GrowthList | None = None
    cpu_m: Positive | None = None


class GrowthSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job as a run of FlowCon's Algorithm 1 saw it.

    Attributes:
        before: The list that it was in, from which its limit follows.
        efficiency: G: its progress for each whole node's worth of use; None: it has no measured progress or use yet.
        progress: P, in the unit of the threshold α.
        use: Mean measured use of one resource over the same span, as a share of the node.
        resource: Which one: of those that are considered, the one of which the job uses the largest share. None: CPU.
    """

    job: Name
    before: GrowthList
    efficiency: float | None = None
    progress: float | None = None
    use: float | None = None
    resource: Resource | None = None


class LimitsBecause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The basis of planned limits.

    Attributes:
        rule: The branch that decided.
        jobs: Every job on the node, in the order of their names.
        total: ΣG.
        beta: β = 1 + 1/n.
        floor: The least share of the node that a limit leaves, 1/(β·n).
        interval_ms: Until the next run, unless a job starts or stops before.
        standing: Every job on the node, where the policy ``steepest`` plans.
        resources: What growth efficiency was measured against; empty: CPU alone.
    """

    rule: Text
    jobs: tuple[GrowthSeen, ...] = ()
    total: float = 0.0
    beta: float = 0.0
    floor: float = 0.0
    interval_ms: Millis = 0
    standing: tuple[FairStanding, ...] = ()
    resources: tuple[Resource, ...] = ()

    @property
    def count(self) -> int:
        """How many jobs are on the node: n."""
        return len(self.jobs)


class LimitsPlanned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """The jobs on a node should have these CPU limits (FlowCon, or the policy steepest). The newest plan for a job holds."""

    plan: Text
    node: Name
    limits: tuple[JobLimit, ...]
    because: LimitsBecause

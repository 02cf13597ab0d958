"""A view's state: nodes, jobs and plans as plain data, so that a snapshot of them is the whole view.

It owns no rule. Times named ``…_counted_ms`` are the pool's counted time; the others are the wall clock of records.
"""

from __future__ import annotations

import enum

import msgspec

from steepest.events.cluster import Category, FailedGpu, FairStanding, GpuUse, Hold, JobSpec, MoveKind, Outcome, Step
from steepest.events.common import CheckpointMode, CheckpointRef, KeeperFacts, NodeRule, Resources, Taint, known_mode
from steepest.events.growth import FindingKind, FindingOpened
from steepest.events.parameters import PoolParameters, accounts
from steepest.view.learned.move_costs import MoveCosts
from steepest.view.learned.user_use import UserUse
from steepest.view.progress_state import DevicePromise, EpochsSeen, Forecast, Limit, Progress, Replica, Trial

STATE_VERSION = 14
"""Version of :class:`ViewState`; a snapshot of another version is not used."""

CATEGORIES = (Category.PROGRESSING, Category.WATCHED, Category.CONVERGED)


class Node(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A node, its allocation, and the jobs that count in its score.

    Attributes:
        allocated: Requests of the replicas that run here and of those that valid plans reserve a place for.
        replicas: Replicas of each category assigned here, in the order PC, WC, CC. A replica on its way counts at its
            target from the moment its plan is valid.
        unknown: Replicas assigned here whose growth is unknown; they count in no category.
        jobs: The jobs that hold a place here; one that moves holds two.
        seen_counted_ms: When the node last sent a heartbeat.
        seen_offset: The record by which.
        takes_jobs: Whether jobs may be placed here; a device that only reports takes none.
        labels: Its labels; None: they are not known.
        taints: What keeps jobs away that do not tolerate it.
        keeper: What an image of its jobs depends on; None: it is not known.
        failed_gpus: Its GPUs that are out of use; ``gpu_use``: the newest use of the others.
        drained: Whether its operator, or the watcher, lets no more jobs come; it has the taint :data:`DRAINED` then.
        slow: Why the watcher has closed it; empty: it has not.
        slow_counted_ms: When the watcher closed it last, or its operator opened it; ``slow_times``: how often it was closed.
        standing: How its jobs stood in its newest plan of the policy ``steepest``.
    """

    name: str
    capacity: Resources
    allocated: Resources = Resources()
    used: Resources = Resources()
    replicas: list[int] = msgspec.field(default_factory=lambda: [0, 0, 0])
    unknown: int = 0
    jobs: dict[str, None] = {}
    lost: bool = False
    seen_counted_ms: int = 0
    seen_offset: int = -1
    takes_jobs: bool = True
    labels: dict[str, str] | None = None
    taints: tuple[Taint, ...] = ()
    keeper: KeeperFacts | None = None
    failed_gpus: tuple[FailedGpu, ...] = ()
    gpu_use: tuple[GpuUse, ...] = ()
    drained: bool = False
    slow: str = ""
    slow_counted_ms: int | None = None
    slow_times: int = 0
    standing: tuple[FairStanding, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether jobs may come here now."""
        return self.takes_jobs and not self.lost

    @property
    def count(self) -> int:
        """|w|: how many replicas are assigned here."""
        return sum(self.replicas) + self.unknown

    @property
    def growing(self) -> int:
        """|PC| + |WC| of this node."""
        return self.replicas[0] + self.replicas[1]

    @property
    def free(self) -> Resources:
        """The resources that can still be reserved."""
        return self.capacity - self.allocated


class Phase(enum.StrEnum):
    """The phase of a job."""

    WAITING = "waiting"  # for a place
    SUSPENDED = "suspended"  # for a place too, to resume from where it was suspended: no process, no place
    RUNNING = "running"  # an incarnation was started, or a plan holds its place while it is between two
    STOPPED = "stopped"  # no process, no plan: the placer decides whether it is over
    ENDED = "ended"


class Job(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A job from its submission on.

    Attributes:
        user: Who submitted it; empty: that is not known.
        submitted_offset: Its place in the queue.
        incarnation: The newest one that was begun; 0 before the first.
        started_on: The node of its newest beginning, also if nothing started there.
        nodes: Where each replica of that incarnation is; empty while it has none.
        sizes: How many replicas of each role that incarnation has; empty: as many as its roles name.
        replicas: The replicas of a gang's newest incarnation; empty for a job of one replica.
        alive: Whether its processes run, as far as the log shows; of a gang, any of them.
        holds: Replica places that it has reserved, by node; two nodes while it moves.
        held: What it holds on a node, where that is not its requests for each of those places.
        gpus: The GPUs of each replica of its newest incarnation, by their ids on its node; without those that are unknown.
        saver: The replica of a gang that saves for all.
        stop_replica: The replica of a gang whose end was the end of all, the first one.
        assigned: Replicas that count in a node's score, by node.
        declared_mode: The checkpoint mode that the process declares.
        mode_reason: Why its keeper cannot save it, or what was lost when it was restored.
        growth: The newest growth measured.
        measured: Whether any growth was measured.
        unknown: Whether that took so long that nothing is known of its growth; until it is measured, it is in no category.
        growth_counted_ms: When its growth was measured last; 0 where silence says nothing of it.
        growth_every_ms: An estimate of the time between its last two measurements.
        converged_counted_ms: When it became CC.
        migrated: Algorithm 4 has decided about it (moved or stayed): its category is frozen.
        rebalanced: Algorithm 5 has moved it.
        dwells_until_counted_ms: Until when the policy ``steepest`` leaves it where it is.
        limit: The CPU limit that was planned for this incarnation; None before the first.
        progress: How far it has come.
        epochs_seen: Its epochs, as the traffic from the storage shows them; None: none was seen.
        forecast: The newest prediction of its run time, if any; ``promise``: what is promised to it, if it has devices.
        plan: The plan in flight, if any.
        cancel: The request that asked to stop it for good.
        cancel_reason: Why, where more is known than that a user asked; ``hold``: what keeps it from starting.
        refusals: Retries since it ran last after starts that could not read its checkpoint.
        goal_reached: The part of its goal that it has reached, because of which it is stopped.
        trial: Its values and judgements as a trial of its array.
        findings: What is wrong with its incarnation, by kind.
        notified: The targets that were notified of one, by its kind, and not yet of its end.
        reaction: Why it is stopped because of one; empty: it is not. ``restarts``: whether it waits for a place again.
        rewinds: Whether it goes on from ``good`` then, because its loss has gone wrong.
        good: The newest checkpoint known from before that; it is kept.
        given_up: The incarnation that it went back from last, whose checkpoints do not count any more; 0: none.
        previous: The checkpoint before ``checkpoint``.
        image: The checkpoint that is an image of its processes, and the facts of the node where it was made, if known.
        narrowed: Its rule about nodes with what its image demands of them; None: all that it may run on can restore it.
        restarted: Restarts because of findings so far; a GPU that failed is not the job's fault, and is none.
        avoids: The node that was the cause of one, and the counted time until which the job stays away from it.
        suspended_for: The incarnation that was to be suspended because of a finding.
        cpu_ms_saved: CPU time that it still needed then up to its announced end; None: unknown, or it has reached no goal.
        placed_counted_ms: When its newest incarnation was accepted by its nodes.
        held_ms: For how long it held places, up to when it gave them back last.
        service_ms: The same times its GPUs, or its CPU cores if it has none.
        suspensions: How often it was suspended; ``resumptions``: placed again after that; ``scalings``: scaled.
        suspended_counted_ms: When it was suspended last.
        made_room_for: The jobs that it was suspended for.
    """

    name: str
    request: str
    spec: JobSpec
    user: str = ""
    submitted_ms: int
    submitted_offset: int
    submitted_counted_ms: int
    phase: Phase = Phase.WAITING
    admitted: bool = False
    incarnation: int = 0
    started_on: str = ""
    nodes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    replicas: list[Replica] = []
    alive: bool = False
    holds: dict[str, int] = {}
    held: dict[str, Resources] = {}
    gpus: dict[int, tuple[int, ...]] = {}
    assigned: dict[str, int] = {}
    declared_mode: CheckpointMode | None = None
    mode_reason: str = ""
    saver: int = 0
    checkpoint: CheckpointRef | None = None
    category: Category = Category.PROGRESSING
    growth: float | None = None
    measured: bool = False
    unknown: bool = False
    growth_counted_ms: int = 0
    growth_every_ms: int = 0
    converged_counted_ms: int = 0
    migrated: bool = False
    rebalanced: bool = False
    dwells_until_counted_ms: int = 0
    moves: int = 0
    moves_failed: int = 0
    steps_lost: int = 0
    limit: Limit | None = None
    progress: Progress = msgspec.field(default_factory=Progress)
    epochs_seen: EpochsSeen | None = None
    forecast: Forecast | None = None
    promise: DevicePromise | None = None
    plan: str | None = None
    cancel: str | None = None
    cancel_reason: str = ""
    hold: Hold = Hold.NONE
    goal_reached: str = ""
    trial: Trial = Trial()
    findings: dict[FindingKind, FindingOpened] = {}
    notified: dict[FindingKind, tuple[str, ...]] = {}
    reaction: str = ""
    restarts: bool = False
    rewinds: bool = False
    good: CheckpointRef | None = None
    given_up: int = 0
    previous: CheckpointRef | None = None
    image: tuple[str, KeeperFacts | None] | None = None
    narrowed: NodeRule | None = None
    restarted: int = 0
    avoids: tuple[str, int] | None = None
    suspended_for: int = 0
    cpu_ms_saved: int | None = None
    retries_used: int = 0
    retries_held: int = 0
    refusals: int = 0
    not_before_counted_ms: int = 0
    exit_status: int | None = None
    stop_reason: str = ""
    stop_code: str = ""
    stop_replica: int = 0
    stopped_incarnation: int = 0
    stop_step: int | None = None
    saved_since_start: bool = False
    first_placed_ms: int | None = None
    started_counted_ms: int = 0
    placed_counted_ms: int = 0
    held_ms: int = 0
    service_ms: int = 0
    suspensions: int = 0
    resumptions: int = 0
    scalings: int = 0
    suspended_counted_ms: int = 0
    made_room_for: tuple[str, ...] = ()
    ended_ms: int | None = None
    ended_offset: int = -1
    outcome: Outcome | None = None

    @property
    def is_queued(self) -> bool:
        """Whether it waits for a place, to start or to resume."""
        return self.phase is Phase.WAITING or self.phase is Phase.SUSPENDED

    @property
    def accounts(self) -> tuple[str, ...]:
        """Where what it holds is counted, as :func:`~steepest.events.parameters.accounts` spells it."""
        return accounts(self.spec.queue, self.user)

    @property
    def running_on(self) -> tuple[str, ...]:
        """The node of each replica whose process runs, as far as the log shows."""
        if self.spec.is_gang:
            return tuple(replica.node for replica in self.replicas if replica.alive)
        return self.nodes if self.alive else ()

    @property
    def running_sizes(self) -> tuple[int, ...]:
        """How many replicas of each role run; empty: as many as its roles name, or none."""
        if not self.spec.is_gang:
            return ()
        alive = [replica.role for replica in self.replicas if replica.alive]
        return tuple(map(alive.count, range(len(self.spec.all_roles))))

    @property
    def mode(self) -> CheckpointMode:
        """How it can be checkpointed: what its user says, else what its process or its keeper declares, else not at all."""
        return known_mode(self.spec.checkpoint_mode, self.declared_mode)

    @property
    def node_rule(self) -> NodeRule | None:
        """Which nodes it may run on, by what its user says and by what its image demands."""
        return self.narrowed or self.spec.node_rule

    @property
    def node(self) -> str | None:
        """The node of its first replica."""
        return self.nodes[0] if self.nodes else None

    @property
    def category_index(self) -> int:
        """Its category's place in ``Node.replicas``."""
        return CATEGORIES.index(self.category)


class PlanKind(enum.StrEnum):
    """The kind of a plan. A job has at most one plan in flight, of any kind."""

    PLACE = "place"
    MIGRATE = "migrate"
    SUSPEND = "suspend"
    SCALE = "scale"
    MOVE = "move"  # of a whole gang
    SHED = "shed"  # of surplus replicas, while the others train on
    CANCEL = "cancel"  # made by the view when a cancel is asked for: there is nothing to decide about it
    CLEAR = "clear"  # likewise, when a gang has lost a replica without which it cannot go on


MOVING = frozenset({PlanKind.MIGRATE, PlanKind.SCALE, PlanKind.MOVE})
"""The kinds of plans that stop a job and start it again."""

TRANSITIONS = frozenset({PlanKind.SUSPEND, PlanKind.SCALE, PlanKind.MOVE, PlanKind.SHED})
"""The kinds of plans that a ``TransitionPlanned`` makes."""

CLEARING = frozenset({PlanKind.CANCEL, PlanKind.CLEAR})
"""The kinds of plans that the view makes, and that are never given up while the job may run."""


class PlanStatus(enum.StrEnum):
    """The status of a plan."""

    IN_FLIGHT = "in flight"
    VOID = "void"
    FINISHED = "finished"
    FAILED = "failed"
    ABANDONED = "abandoned"


class Heading(enum.StrEnum):
    """Which way a migration goes."""

    FORWARD = "forward"
    BACK = "back"  # the job is started again where it was
    DONE = "done"  # no step is left: only the event that concludes the plan
    FAILED = "failed"  # likewise, and it did not work out


class Plan(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A plan from the record that made it to the record that ends it.

    Attributes:
        incarnation: The job's incarnation that it is about.
        sources: The job's nodes when it was made; empty for a placement, and once they are gone for good.
        targets: The node of each replica afterwards; empty once it is gone for good.
        source_sizes: How many replicas of each role are at ``sources``; empty: as many as the job's roles name.
        sizes: Likewise at ``targets``.
        leaving: The replicas that leave; empty unless it sheds some.
        after: The plans that make room for it.
        waits: Those of them that are not over; while there are any, none of its steps may begin.
        promised: What each of these plans will leave to it, by node.
        room_for: The job that room is made for.
        resumes: Whether it starts a job that was suspended.
        step: The step that is due or begun.
        begun: Whether the step was begun; its outcome is awaited.
        attempt: The newest beginning, over all steps.
        failures: Definite failures of this step.
        unclear: Failures of this step in a row that may have taken effect.
        next_incarnation: The incarnation that its START starts.
        doomed: Why it must be given up as soon as no step is under way; empty while it need not.
        code: Why it is void (a :class:`~steepest.view.refusal.Refusal`), or the code of the failure that ended it.
        message: What the failure that ended it said.
        stopped_ms: When its STOP was done.
        stopped_step: The last step that the job had reported then.
        steps_lost: Those since the checkpoint that the job resumes from.
        saves_within_ms: Predicted time until the job has saved; 0: it was not predicted.
        trace: The ``traceparent`` of the record that made it; empty if that has none.
    """

    id: str
    kind: PlanKind
    job: str
    incarnation: int
    made_ms: int
    status: PlanStatus = PlanStatus.IN_FLIGHT
    reason: str = ""
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    source_sizes: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    leaving: tuple[int, ...] = ()
    after: tuple[str, ...] = ()
    waits: tuple[str, ...] = ()
    promised: dict[str, dict[str, Resources]] = {}
    room_for: str = ""
    resumes: bool = False
    move: MoveKind | None = None
    heading: Heading = Heading.FORWARD
    steps: tuple[Step, ...] = ()
    begun: bool = False
    attempt: int = 0
    failures: int = 0
    unclear: int = 0
    not_before_counted_ms: int = 0
    next_incarnation: int = 0
    doomed: str = ""
    code: str = ""
    message: str = ""
    stopped_ms: int = 0
    stopped_step: int = 0
    steps_lost: int = 0
    saves_within_ms: int = 0
    trace: str = ""

    @property
    def step(self) -> Step | None:
        """The step that is due or begun; None once only the conclusion is left."""
        return self.steps[0] if self.steps else None

    @property
    def destination(self) -> str:
        """Where START starts the job; of a gang, its replica 0."""
        return self.destinations[0]

    @property
    def destinations(self) -> tuple[str, ...]:
        """Where START starts each replica."""
        return self.sources if self.heading is Heading.BACK else self.targets

    @property
    def destination_sizes(self) -> tuple[int, ...]:
        """How many replicas of each role START starts; empty: as many as the job's roles name."""
        return self.source_sizes if self.heading is Heading.BACK else self.sizes


class ViewState(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The whole view.

    Attributes:
        position: The offset of the next record to fold.
        epoch: Identity of the log it was folded from.
        reads: The event version that the pool asks of its readers; 0 before its first configuration.
        streams: Per stream of decisions, the position of the newest one folded.
        last_ids: Per stream, the newest id, against which ``prev`` is checked.
        gaps: Decisions that are missing: a later one names them as its predecessor.
        move_costs: What moves take, by those that were measured.
        used: By the account of a user, up to when its jobs began or ceased to hold something.
    """

    position: int = 0
    epoch: str = ""
    counted_ms: int = 0
    reads: int = 0
    flags: tuple[int, ...] = ()
    parameters: PoolParameters = PoolParameters()
    nodes: dict[str, Node] = {}
    jobs: dict[str, Job] = {}
    plans: dict[str, Plan] = {}
    streams: dict[str, tuple[int, int]] = {}
    last_ids: dict[str, str] = {}
    gaps: int = 0
    move_costs: MoveCosts = msgspec.field(default_factory=MoveCosts)
    used: dict[str, UserUse] = {}

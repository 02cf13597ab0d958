"""The requests of users."""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from steepest.events.common import CheckpointMode, Count, Name, NodeRule, Positive, Priority, Resources, Text, User
from steepest.events.growth import Reactions

MOST_REPLICAS = 10_000
"""Replicas of a role."""

Replicas = Annotated[int, msgspec.Meta(ge=1, le=MOST_REPLICAS)]


class SuccessRule(enum.StrEnum):
    """When a job of several replicas has finished."""

    ALL = "all"  # every replica has exited with status 0
    CHIEF = "chief"  # replica 0 has; the others are stopped then


SERVER_ROLES = ("ps", "parameter-server")
"""The names of roles whose replicas hold the parameters for the others."""


class Role(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Replicas of a job that do the same: its workers, or its parameter servers.

    Attributes:
        replicas: How many, where there is room for all.
        min: The fewest that the job can run with; None: ``replicas``.
        max: The most that it may be scaled to; None: ``replicas``.
        sizes: The numbers of replicas that its algorithm allows; empty: all from ``min`` to ``max``.
        requests: Reserved resources of each.
        may_leave: Whether surplus replicas may leave while the others train on: the workers of an asynchronous training.
    """

    name: Name
    replicas: Replicas = 1
    min: Replicas | None = None
    max: Replicas | None = None
    sizes: tuple[Replicas, ...] = ()
    requests: Resources = Resources(cpu_m=50)
    may_leave: bool = False

    @property
    def is_server(self) -> bool:
        """Whether its replicas hold the parameters for the others, which stand still without them."""
        return self.name in SERVER_ROLES

    @property
    def fewest(self) -> int:
        """The fewest replicas that the job can run with."""
        return self.replicas if self.min is None else self.min

    @property
    def most(self) -> int:
        """The most replicas that it may be scaled to."""
        return self.replicas if self.max is None else self.max

    def allows(self, count: int) -> bool:
        """Whether the job can run with that many of them."""
        return self.fewest <= count <= self.most and (not self.sizes or count in self.sizes)


class Goal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a job has learned enough, by the means of its evaluation function over intervals; any of these is enough.

    Attributes:
        below: The mean is less than this.
        above: The mean is more than this; the evaluation function is then one that grows.
        patience: The number of intervals in a row without a mean better than the best one before.
    """

    below: float | None = None
    above: float | None = None
    patience: Positive | None = None


class Rungs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the trials of an array are compared: at ``first``, and each ``factor`` times as far (Li et al., MLSys 2020).

    Attributes:
        first: In steps; of a job that prints epochs alone in epochs, of one that prints neither in values.
        factor: η: of the trials at a rung, one in η goes on.
    """

    first: Positive
    factor: Annotated[int, msgspec.Meta(ge=2, le=100)] = 3


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The job that a user asks to run.

    Attributes:
        command: Program and arguments; no shell.
        working_dir: Where it runs.
        image: The container image to run it in; empty is the cluster's default.
        env: Variables added to its environment.
        requests: Reserved resources of each replica, where no roles are named.
        replicas: How many processes, where no roles are named; SpeCon's jobs have one.
        checkpoint_mode: What the user says; where None, what the process declares counts, else ``none``.
        retries: Failures after which it is started again.
        model: A name for people, of what is trained.
        metric: The evaluation function's name in the output.
        log_format: The format of its printed lines.
        pattern: An RE2 expression that reads its printed lines, instead of a format; empty: none.
        tty: Whether it prints to a pseudo-terminal: some progress bars print nothing into a file.
        metrics_folder: A folder of TensorBoard event files, or an MLflow store, that its losses are read from too.
        device: The device over MQTT that may report its losses; None: only the node where it runs.
        first_node: Where to place it first (a paired comparison needs the same start); later moves are free.
        roles: Its replicas by what they do; replica 0 is the first of the first role, the chief. Empty: one role.
        success: When it has finished.
        priority: How urgent it is.
        priority_class: The name of that priority, for people; empty: it was given as a number.
        queue: The queue that it waits in.
        steps: The steps of the whole training, as its user announces them; None: they are not announced.
        epochs: Likewise the epochs.
        batch_size: Examples a step, of all replicas together.
        data_bytes: Size of the data set that each epoch reads.
        goal: When it has learned enough and ends as finished; None: once its process says so.
        deadline_ms: From its submission to when it should have ended; None: its user does not say. It ends no job.
        time_limit_ms: For how long it may run in all, suspensions not counted; then it is cancelled. None: for any time.
        after: The jobs that must have finished before it starts; it is cancelled if one of them ends otherwise.
        after_any: Whether it starts once they are over, however they ended; one that was rejected still cancels it.
        array: The name of the array that it belongs to; empty: none.
        array_most: The most jobs of its array that may run or wait for a place at a time; None: all.
        params: Its values in the command, by name, which tell it from the others of its array.
        rungs: Where it is compared with the others of its array, each a trial; None: nowhere.
        reactions: What to do about findings of it.
        node_rule: Which nodes each of its replicas may be placed on; None: those without taints. It says nothing of its
            pods, whose own tolerations and selectors it is read from.
    """

    command: tuple[str, ...]
    working_dir: str | None = None
    image: Text = ""
    env: dict[str, str] = {}
    requests: Resources = Resources(cpu_m=50)
    replicas: Count = 1
    checkpoint_mode: CheckpointMode | None = None
    retries: Count = 0
    model: Text = ""
    metric: Text = "loss"
    log_format: Text = "auto"
    pattern: Text = ""
    metrics_folder: Text = ""
    tty: bool = False
    first_node: Name | None = None
    device: Name | None = None
    roles: tuple[Role, ...] = ()
    success: SuccessRule = SuccessRule.ALL
    priority: Priority = 0
    priority_class: Text = ""
    queue: Name = "default"
    steps: Positive | None = None
    epochs: Positive | None = None
    batch_size: Positive | None = None
    data_bytes: Positive | None = None
    goal: Goal | None = None
    deadline_ms: Positive | None = None
    time_limit_ms: Positive | None = None
    after: tuple[Name, ...] = ()
    after_any: bool = False
    array: Text = ""
    array_most: Positive | None = None
    params: dict[str, str] = {}
    rungs: Rungs | None = None
    node_rule: NodeRule | None = None
    reactions: Reactions = Reactions()

    @property
    def all_roles(self) -> tuple[Role, ...]:
        """Its roles; the one that it has where it names none is ``worker``."""
        return self.roles or (Role(name="worker", replicas=self.replicas, requests=self.requests),)

    @property
    def counted(self) -> JobSpec:
        """The same job, each replica of which counts against what nodes take."""
        roles = tuple(msgspec.structs.replace(role, requests=role.requests.of_a_replica) for role in self.roles)
        return msgspec.structs.replace(self, requests=self.requests.of_a_replica, roles=roles)

    @property
    def world(self) -> int:
        """How many replicas it has where there is room for all."""
        return sum(role.replicas for role in self.roles) if self.roles else self.replicas

    @property
    def smallest(self) -> tuple[int, ...]:
        """The fewest replicas of each role that it may be started with."""
        roles = self.all_roles
        return tuple(min((size for size in one.sizes if size >= one.fewest), default=one.fewest) for one in roles)

    @property
    def is_gang(self) -> bool:
        """Whether it has several replicas, which start, move and stop together."""
        if not self.roles:
            return self.replicas > 1
        return self.world > 1 or any(role.most > role.replicas for role in self.roles)

    @property
    def is_elastic(self) -> bool:
        """Whether it may run with other numbers of replicas than it begins with."""
        return any(role.fewest < role.most or role.may_leave for role in self.roles)

    @property
    def chief_requests(self) -> Resources:
        """The request of replica 0."""
        return self.roles[0].requests if self.roles else self.requests

    def counts(self, sizes: tuple[int, ...] = ()) -> tuple[int, ...]:
        """How many replicas of each role there are; ``sizes``: if not as many as its roles name."""
        return sizes or tuple(role.replicas for role in self.all_roles)

    def allows(self, sizes: tuple[int, ...]) -> bool:
        """Whether it can run with that many replicas of each role; empty: as many as its roles name."""
        if not sizes:
            return True
        roles = self.all_roles
        return len(sizes) == len(roles) and all(role.allows(count) for role, count in zip(roles, sizes, strict=True))

    def replica_requests(self, sizes: tuple[int, ...] = ()) -> tuple[Resources, ...]:
        """The request of each replica, in the order of the replicas; ``sizes``: the number of each role, if not all."""
        roles = zip(self.all_roles, self.counts(sizes), strict=True)
        return tuple(role.requests for role, count in roles for _ in range(count))

    def role_indexes(self, sizes: tuple[int, ...] = ()) -> tuple[int, ...]:
        """The role of each replica, as its index among the roles."""
        return tuple(index for index, count in enumerate(self.counts(sizes)) for _ in range(count))


class Hold(enum.StrEnum):
    """Why a job is kept from starting."""

    NONE = ""
    USER = "user"  # its user holds it; while it runs, it must be suspended
    FINDING = "finding"  # likewise because of a finding, until its user lets it go on
    RUNG = "rung"  # likewise because it waits at its rung, until it may go on
    OTHERS = "others"  # it waits for the ends of other jobs

    @property
    def suspends(self) -> bool:
        """Whether a job must be suspended while it runs."""
        return self in {Hold.USER, Hold.FINDING, Hold.RUNG}


class JobSubmitted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A user wants a job to run. The client makes ``request``, so that sending it twice submits once.

    Attributes:
        user: Who, as the writer of the event knows it and not as the job's description says; empty: it is not known.
    """

    job: Name
    request: Text
    spec: JobSpec
    user: User = ""


class JobCancelRequested(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A user wants a job to stop for good, or the placer, because its time is over or a job that it comes after failed.

    Attributes:
        reason: Why, for people; empty: a user wants it.
    """

    job: Name
    request: Text
    reason: Text = ""


class JobChangeRequested(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A user wants a job to be held, to go on, or to be more or less urgent; or the placer lets a job start that was held.

    Attributes:
        held: Whether it is kept from starting from here on, and suspended if it runs; None: as before.
        priority: How urgent it is from here on; None: as before.
        priority_class: The name of that priority, for people.
    """

    job: Name
    request: Text
    held: bool | None = None
    priority: Priority | None = None
    priority_class: Text = ""


class NodeDrainRequested(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A user closes a node to new jobs, or opens it again; or the watcher does, of a slow one. The jobs there run on.

    Attributes:
        why: What the watcher has found; empty: a user asked for it.
    """

    node: Name
    request: Text
    drained: bool
    why: Text = ""

"""Value types that several events share. It must never know any topic or event."""

from __future__ import annotations

import enum
import re
from typing import Annotated, Any

import msgspec

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$(?!\n)")]
"""A job, node or pool: lower-case letters, digits, dots, dashes and underscores, 1–63 of them."""


User = Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9_][A-Za-z0-9._@+-]{0,62})?$(?!\n)")]
"""Who submits jobs: a login name, or that of a token; empty: not known."""


def is_name(text: str, kind: Any = Name) -> bool:
    """Whether a text has the form of a :data:`Name`, or of another kind."""
    try:
        msgspec.convert(text, kind)
    except msgspec.ValidationError:
        return False
    return True


LARGEST = 2**63 - 1
"""Snapshots hold integers of 64 bits: a number from outside is of 63, so that one and a little more fits as well."""

Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Positive = Annotated[int, msgspec.Meta(gt=0, le=LARGEST)]
Millis = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
"""A time of the wall clock, or a span of time, in integer milliseconds."""


def bounded_millis(value: float) -> int:
    """The nearest number of milliseconds that an event can hold."""
    return min(max(round(value), 0), LARGEST)


ExitStatus = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""0–255, or minus the signal's number; or any other value of 32 bits."""

Text = Annotated[str, msgspec.Meta(max_length=2000)]
"""A sentence for people; bounded because it may repeat what came from outside."""


ExtendedName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,252}$(?!\n)")]
"""An extended resource, named as Kubernetes names them: ``nvidia.com/mig-1g.5gb``."""

LEAST_CPU_M = 1
"""CPU in millicores that a replica without a GPU or another device asks for at least."""

MOST_REPLICAS_OF_A_NODE = 250
"""Replicas that a node takes whose cluster sets no limit; on Kubernetes, a node's allocatable pods."""

Priority = Annotated[int, msgspec.Meta(ge=-1_000_000, le=1_000_000)]
"""How urgent a job is; more is more urgent, 0 is normal."""


class Resources(msgspec.Struct, frozen=True, omit_defaults=True):
    """An amount of each resource.

    Attributes:
        cpu_m: CPU in millicores.
        memory_mib: Memory in MiB.
        gpus: Whole GPUs.
        gpu_m: Thousandths of a GPU, in addition to whole ones: a replica asks for whole GPUs or for a share of one.
        extended: Amounts of named resources, in the order of their names; none is 0.
        replicas: Of a node, how many it takes. Each replica counts as one, also where its job says otherwise.
    """

    cpu_m: Count = 0
    memory_mib: Count = 0
    gpus: Count = 0
    gpu_m: Count = 0
    extended: tuple[tuple[ExtendedName, Count], ...] = ()
    replicas: Count = 0

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu_m + other.cpu_m,
            self.memory_mib + other.memory_mib,
            self.gpus + other.gpus,
            self.gpu_m + other.gpu_m,
            _summed(self.extended, other.extended, 1) if other.extended else self.extended,
            self.replicas + other.replicas,
        )

    def __sub__(self, other: Resources) -> Resources:
        gpus, gpu_m = self.gpus - other.gpus, self.gpu_m - other.gpu_m
        if gpus and gpu_m and (gpus > 0) is not (gpu_m > 0):  # a share is taken of a whole GPU, or the other way round
            all_m = 1000 * gpus + gpu_m
            gpus, gpu_m = (all_m // 1000, all_m % 1000) if all_m >= 0 else (-(-all_m // 1000), -(-all_m % 1000))
        return Resources(
            self.cpu_m - other.cpu_m,
            self.memory_mib - other.memory_mib,
            gpus,
            gpu_m,
            _summed(self.extended, other.extended, -1) if other.extended else self.extended,
            self.replicas - other.replicas,
        )

    def times(self, count: int) -> Resources:
        """This much, ``count`` times."""
        return Resources(
            self.cpu_m * count,
            self.memory_mib * count,
            self.gpus * count,
            self.gpu_m * count,
            tuple((name, amount * count) for name, amount in self.extended) if count else (),
            self.replicas * count,
        )

    def larger(self, other: Resources) -> Resources:
        """The larger of two amounts of each resource."""
        return self + (other - self).positive

    def smaller(self, other: Resources) -> Resources:
        """The smaller of two amounts of each resource."""
        return self - (self - other).positive

    @property
    def positive(self) -> Resources:
        """The amounts above 0."""
        return Resources(
            max(0, self.cpu_m),
            max(0, self.memory_mib),
            max(0, self.gpus),
            max(0, self.gpu_m),
            tuple((name, amount) for name, amount in self.extended if amount > 0),
            max(0, self.replicas),
        )

    @property
    def of_a_node(self) -> Resources:
        """A node's capacity, with a limit on its replicas: that of its cluster, or the usual one."""
        return self if self.replicas else msgspec.structs.replace(self, replicas=MOST_REPLICAS_OF_A_NODE)

    @property
    def of_a_replica(self) -> Resources:
        """The request of a replica, which counts as one."""
        return msgspec.structs.replace(self, replicas=1)

    @property
    def all_gpus_m(self) -> int:
        """Whole GPUs and shares together, in thousandths."""
        return 1000 * self.gpus + self.gpu_m

    def fits(self, free: Resources) -> bool:
        """Whether this much can be taken out of ``free``. Which GPU a share is taken of is not looked at."""
        return (
            self.cpu_m <= free.cpu_m
            and self.memory_mib <= free.memory_mib
            and self.replicas <= free.replicas
            and (not (self.gpus or self.gpu_m) or self.all_gpus_m <= free.all_gpus_m)
            and (not self.extended or _are_there(self.extended, free.extended))
        )


Extended = tuple[tuple[str, int], ...]


def _summed(some: Extended, others: Extended, sign: int) -> Extended:
    amounts = dict(some)
    for name, amount in others:
        amounts[name] = amounts.get(name, 0) + sign * amount
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))


def _are_there(wanted: Extended, free: Extended) -> bool:
    amounts = dict(free)
    return all(amount <= amounts.get(name, 0) for name, amount in wanted)


class CheckpointMode(enum.StrEnum):
    """How a job can be checkpointed."""

    ON_REQUEST = "on-request"  # it saves when asked, and waits for its stop: no step is lost
    ON_STOP = "on-stop"  # it saves when it is stopped
    NONE = "none"  # it is never migrated or preempted
    SYSTEM = "system"  # its processes are saved as they are, when asked, by a keeper
    AUTO = "auto"  # as it declares, else by a keeper; only a user says so


class Activity(enum.StrEnum):
    """What a line that a job prints is about: until its next line it probably does that."""

    LOADING = "loading"
    COMPILATION = "compilation"
    EVALUATION = "evaluation"
    SAVING = "saving"
    OTHER = "other"


KEPT = frozenset({CheckpointMode.SYSTEM, CheckpointMode.AUTO})
"""What a user says of a job that a keeper runs: whether it can be saved is seen once it runs."""


def known_mode(asked: CheckpointMode | None, declared: CheckpointMode | None) -> CheckpointMode:
    """How a job can be checkpointed, by what its user and what its process or its keeper say; neither: not at all."""
    return declared or CheckpointMode.NONE if asked is None or asked in KEPT else asked


CHECKPOINT_NAME = re.compile(r"step-([0-9]{8,18})-i([0-9]{4,18})")
"""The name of a checkpoint: its step, and the incarnation that saved it."""


class CheckpointRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """A verified checkpoint: the folder's name on the job's volume, the step it holds, and its digest.

    Attributes:
        size_bytes: What its files have together; 0: unknown, as in logs of earlier versions.
        is_image: A keeper has saved its processes as they were: no step is lost, and ``step`` counts their seconds.
    """

    name: str
    step: Count
    digest: str
    size_bytes: Count = 0
    is_image: bool = False

    @property
    def incarnation(self) -> int:
        """The incarnation that saved it; 0: its name does not say."""
        match = CHECKPOINT_NAME.fullmatch(self.name)
        return int(match[2]) if match else 0

    def is_newer(self, other: CheckpointRef | None) -> bool:
        """Whether it comes after another one; None: after none. A later incarnation's is newer, also of a lower step."""
        return other is None or (self.incarnation, self.step) > (other.incarnation, other.step)

    def is_same(self, other: CheckpointRef) -> bool:
        """Whether both are one checkpoint, also where the size is known of one of them only."""
        return (self.name, self.step, self.digest) == (other.name, other.step, other.digest)


# --- which nodes a job may run on: labels and taints, in the terms of Kubernetes ---------------------------------------

LabelText = Annotated[str, msgspec.Meta(max_length=400)]
"""A label's or a taint's key or value: Kubernetes' keys have at most 317 characters."""

NAME_FIELD = "field:metadata.name"
"""In place of a label's key: the node's name. No label has such a key."""


class Taint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A taint: it keeps all jobs away from a node but those that tolerate it.

    Attributes:
        effect: ``NoSchedule`` or ``NoExecute``; a taint of another effect keeps no job away, and is none here.
    """

    key: LabelText
    value: LabelText = ""
    effect: LabelText = "NoSchedule"

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class TolerationOperator(enum.StrEnum):
    """How a toleration compares values."""

    EQUAL = "Equal"
    EXISTS = "Exists"  # any value


class Toleration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Taints that a job tolerates.

    Attributes:
        key: Of the taint; empty: any.
        value: Of the taint; only compared where the operator is ``Equal``.
        effect: Of the taint; empty: any.
    """

    key: LabelText = ""
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: LabelText = ""
    effect: LabelText = ""


class LabelOperator(enum.StrEnum):
    """How a requirement compares a label."""

    IN = "In"
    NOT_IN = "NotIn"  # it has another value, or there is none
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"  # both are integers, and the label's is larger
    LT = "Lt"


class LabelRequirement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule about one label of a node.

    Attributes:
        key: Of the label, or :data:`NAME_FIELD`.
        values: With ``In`` and ``NotIn``, any number; with ``Gt`` and ``Lt``, one.
    """

    key: LabelText
    operator: LabelOperator
    values: tuple[LabelText, ...] = ()


class KeeperFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, cache_hash=True):
    """The facts of a node on which an image of its jobs depends; one that is empty is unknown.

    Attributes:
        unable: Why it can have no keepers.
        machine: Its machine type.
        kernel: The kernel's version up to the minor one.
        criu: CRIU's version.
        cpu: The features of its CPU, in the kernel's words, sorted.
        images: The names of its jobs' images, empty for the default one, each with a digest of the layers that a new
            container would have. The digest is empty where it has no such image.
    """

    unable: Text = ""
    machine: Text = ""
    kernel: Text = ""
    criu: tuple[Count, ...] = ()
    cpu: Annotated[str, msgspec.Meta(max_length=8_000)] = ""
    images: tuple[tuple[Text, Text], ...] = ()


class NodeRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, cache_hash=True):
    """Which nodes a job may be placed on.

    Attributes:
        requires: All of these hold.
        any_of: And of one of these, all; one that is empty holds nowhere. Empty: nothing more is required.
        tolerates: The taints of nodes that it may be placed on nevertheless.
        image: The facts of the node where its processes are saved, where not every node can restore them; only the view
            says so.
        avoids: The node that was the cause of a finding; likewise.
    """

    requires: tuple[LabelRequirement, ...] = ()
    any_of: tuple[tuple[LabelRequirement, ...], ...] = ()
    tolerates: tuple[Toleration, ...] = ()
    image: KeeperFacts | None = None
    avoids: Text = ""

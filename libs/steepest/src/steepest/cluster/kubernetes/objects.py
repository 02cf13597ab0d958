"""The parts of Kubernetes' objects that the adapter reads, and what a pod's state means.

It owns the translation of a pod into an :class:`Observation`. It must never send a request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from steepest.cluster.kubernetes.quantities import Quantity
from steepest.cluster.observation import ANSWERS, Observation, end, status_of
from steepest.cluster.port import ReplicaPhase
from steepest.events.common import KeeperFacts

GATE = "steepest.dev/placement"
"""A pod with this scheduling gate waits for a place."""

SCHEDULE = "steepest.dev/schedule"
"""The label by which a user's object is opted in: ``true``. The Jobs that such an object makes have ``part``."""

PART = "part"

HOSTNAME = "kubernetes.io/hostname"
"""The label of a node by which pods are bound to it. Its value need not be the node's name."""

QUEUE = "steepest.dev/queue"
"""The label of a user's object that names its queue."""

CONTAINER = "job"
"""The container that trains, in a pod that Steepest has made."""

NOT_RUN = "not-run"
"""The code of a container that its node's runtime cannot make, or run."""

_NOT_MADE = frozenset({"CreateContainerError", "RunContainerError"})
_CANNOT_RUN = frozenset({"StartError", "ContainerCannotRun"})
_NO_PROGRAM = re.compile(
    "(?i)not found|no such file|permission denied|exec format error|is a directory|not a directory"
)
_NO_IMAGE = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"}
)
_UNSEEN = frozenset({"ContainerStatusUnknown", "Unknown"})  # as the kubelet says, and containerd after a crash
_DISRUPTED = "DisruptionTarget"  # https://kubernetes.io/docs/concepts/workloads/pods/disruptions/


class ObjectPart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an object."""


class OwnerReference(ObjectPart, frozen=True):
    """The object that made another one."""

    uid: str = ""


class ObjectMetadata(ObjectPart, frozen=True):
    """The fields of every object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None
    owner_references: list[OwnerReference] = []


class ClusterObject(ObjectPart, frozen=True):
    """Any object of the API server."""

    metadata: ObjectMetadata


class RunningState(ObjectPart, frozen=True):
    """A container that runs."""

    started_at: str | None = None


class WaitingState(ObjectPart, frozen=True):
    """A container that does not run yet."""

    reason: str = ""
    message: str = ""


class TerminatedState(ObjectPart, frozen=True):
    """A container that has ended."""

    exit_code: int
    reason: str = ""
    message: str = ""


class ContainerState(ObjectPart, frozen=True):
    """One of three."""

    running: RunningState | None = None
    waiting: WaitingState | None = None
    terminated: TerminatedState | None = None


class ContainerCaps(ObjectPart, frozen=True):
    """``resources``: quantities as Kubernetes, or a user, writes them."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class DeviceHealth(ObjectPart, frozen=True):
    """A device of a container: ``Healthy``, ``Unhealthy`` or ``Unknown``."""

    resource_id: str = msgspec.field(name="resourceID")
    health: str = "Unknown"


class AllocatedDevices(ObjectPart, frozen=True):
    """The devices of one kind that a container has."""

    name: str
    resources: list[DeviceHealth] = []


class ContainerStatus(ObjectPart, frozen=True):
    """The kubelet's status of a container."""

    name: str
    state: ContainerState = ContainerState()
    container_id: str = msgspec.field(default="", name="containerID")
    restart_count: int = 0
    resources: ContainerCaps | None = None
    allocated_resources_status: list[AllocatedDevices] = []


class ObjectCondition(ObjectPart, frozen=True):
    """One condition of an object."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    observed_generation: int = 0


class PodStatus(ObjectPart, frozen=True):
    """A pod's status."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: list[ObjectCondition] = []
    container_statuses: list[ContainerStatus] = []


class SchedulingGate(ObjectPart, frozen=True):
    """A gate."""

    name: str


class PodContainer(ObjectPart, frozen=True):
    """A container of a pod's spec."""

    name: str = ""
    resources: ContainerCaps = ContainerCaps()
    restart_policy: str = ""


class PodSpec(ObjectPart, frozen=True):
    """A pod's spec."""

    node_name: str | None = None
    containers: list[PodContainer] = []
    init_containers: list[PodContainer] = []
    resources: ContainerCaps = ContainerCaps()
    overhead: dict[str, Quantity] = {}
    host_network: bool = False
    scheduling_gates: list[SchedulingGate] = []


class Pod(ClusterObject, frozen=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_gated(self) -> bool:
        """Whether it waits for a place."""
        return any(gate.name == GATE for gate in self.spec.scheduling_gates)

    @property
    def has_ended(self) -> bool:
        """Whether none of its containers runs, or ever will."""
        return self.status.phase in {"Succeeded", "Failed"}

    @property
    def state(self) -> ContainerState:
        """The state of the container that trains."""
        found = training(self.status.container_statuses)
        return found.state if found is not None else ContainerState()

    @property
    def container(self) -> str:
        """The name of the container that trains."""
        found = training(self.spec.containers)
        return found.name if found is not None else CONTAINER

    def condition(self, type_: str) -> ObjectCondition | None:
        """A condition that holds."""
        return next((one for one in self.status.conditions if one.type == type_ and one.status == "True"), None)


class BatchJobSpec(ObjectPart, frozen=True):
    """A Job's spec."""

    suspend: bool = False


class BatchJobStatus(ObjectPart, frozen=True):
    """A Job's status."""

    failed: int = 0
    conditions: list[ObjectCondition] = []


class BatchJob(ClusterObject, frozen=True):
    """A Job of ``batch/v1``."""

    spec: BatchJobSpec = BatchJobSpec()
    status: BatchJobStatus = BatchJobStatus()

    @property
    def is_over(self) -> bool:
        """Whether it runs no pods any more, and never will."""
        return any(one.type in {"Complete", "Failed"} and one.status == "True" for one in self.status.conditions)

    @property
    def may_make_pods(self) -> bool:
        """Whether it makes pods once it is not suspended; one that is being deleted makes none."""
        return not self.is_over and self.metadata.deletion_timestamp is None


class NodeTaint(ObjectPart, frozen=True):
    """A taint: it keeps pods away from a node that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class ClusterNodeSpec(ObjectPart, frozen=True):
    """A node's spec."""

    unschedulable: bool = False
    taints: list[NodeTaint] = []


class NodeInfo(ObjectPart, frozen=True):
    """What a node's kubelet says of its machine."""

    architecture: str = ""
    kernel_version: str = ""


class ClusterNodeStatus(ObjectPart, frozen=True):
    """A node's status."""

    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: list[ObjectCondition] = []
    addresses: list[dict[str, str]] = []
    daemon_endpoints: dict[str, dict[str, int]] = {}
    node_info: NodeInfo = NodeInfo()


class ClusterNode(ClusterObject, frozen=True):
    """A node."""

    spec: ClusterNodeSpec = ClusterNodeSpec()
    status: ClusterNodeStatus = ClusterNodeStatus()

    @property
    def is_ready(self) -> bool:
        """Whether its kubelet answers."""
        return any(one.type == "Ready" and one.status == "True" for one in self.status.conditions)

    @property
    def host(self) -> str:
        """The value of the label by which pods are bound to it."""
        return self.metadata.labels.get(HOSTNAME, self.metadata.name)

    @property
    def keeper(self) -> KeeperFacts | None:
        """What an image of its jobs depends on, as far as its kubelet says; None: it says nothing."""
        info = self.status.node_info
        kernel = ".".join(info.kernel_version.split(".")[:2])
        return KeeperFacts(machine=info.architecture, kernel=kernel) if kernel else None

    @property
    def kubelet(self) -> str:
        """Where its kubelet serves, as ``https://ADDRESS:PORT``; empty: it does not say."""
        port = self.status.daemon_endpoints.get("kubeletEndpoint", {}).get("Port", 0)
        at = next((one["address"] for one in self.status.addresses if one["type"] == "InternalIP"), "")
        return f"https://{f'[{at}]' if ':' in at else at}:{port}" if at and port else ""


T = TypeVar("T", bound=ClusterObject)


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_N = TypeVar("_N", bound=_Named)


def training(containers: Sequence[_N]) -> _N | None:
    """The container that trains: the one that Steepest has made, or the only one of a user's pod."""
    found = next((each for each in containers if each.name == CONTAINER), None)
    return containers[0] if found is None and len(containers) == 1 else found


class Listing(ObjectPart, Generic[T], frozen=True):
    """One page of a list."""

    items: list[T]
    metadata: ListMetadata


class ListMetadata(ObjectPart, frozen=True):
    """Where a watch goes on, and the next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


def observed(pod: Pod, *, was_stopped: bool = False) -> Observation:
    """The proof in the state of a pod; its gate was dropped for the incarnation in question, unless it is there still.

    ``was_stopped``: Steepest has stopped it, so that a deletion is not another party's.
    """
    if pod.is_gated and not pod.has_ended:
        return Observation(phase=ReplicaPhase.STARTING, began=False)
    if not pod.has_ended:
        is_on = pod.state.running is not None or pod.state.terminated is not None
        return Observation(phase=ReplicaPhase.RUNNING if is_on else ReplicaPhase.STARTING)
    ended = pod.state.terminated
    why = (f"{pod.status.reason} {pod.status.message}").strip()
    if ended is None or ended.reason in _UNSEEN:
        return end(None, why or "the kubelet did not see how it ended")
    status = status_of(ended.exit_code)
    if (condition := pod.condition(_DISRUPTED)) is not None:  # a pod that exceeds its own limits is evicted without it
        return end(status, place=f"its place ended: {condition.reason}: {condition.message or why}")
    is_deleted = pod.metadata.deletion_timestamp is not None and not was_stopped and status in ANSWERS
    place = "its pod was deleted" if is_deleted else ""
    return end(status, why, place=place, is_memory=ended.reason == "OOMKilled")


def failed_start(pod: Pod, *, is_new: bool) -> tuple[str, str] | None:
    """Why a pod's container cannot start, as the port's code and a message; None if it may.

    A missing program is the job's fault. Other failures of the runtime may be those of a busy node.

    ``is_new``: The kubelet may still succeed with a container that its runtime could not make.
    """
    waiting, ended = pod.state.waiting, pod.state.terminated
    if waiting is not None and waiting.reason in _NO_IMAGE:
        return "no-such-image", waiting.message or waiting.reason
    if waiting is not None and waiting.reason in _NOT_MADE and not is_new:
        return NOT_RUN, waiting.message or waiting.reason
    if ended is not None and ended.reason in _CANNOT_RUN:
        return "no-such-program" if _NO_PROGRAM.search(ended.message) else NOT_RUN, ended.message or ended.reason
    return None


def unschedulable(pod: Pod) -> str:
    """Why the scheduler finds no place for a pod; empty where it has given no reason."""
    for one in pod.status.conditions:
        if one.type == "PodScheduled" and one.status == "False" and one.reason == "Unschedulable":
            return one.message
    return ""

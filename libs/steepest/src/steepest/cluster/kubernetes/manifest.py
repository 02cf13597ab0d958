"""The Job of a replica, as ``batch/v1`` has it, and what an incarnation adds to its pod.

It owns names, labels and the manifest. It must never send a request. A Job stays the same over the incarnations of a
replica: their differences are in annotations of the pod, which are written with the node, and which the container reads as
variables. So a move neither makes a new Job nor counts as a failure of this one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from steepest.cluster.container_paths import CHECKPOINTS, CONTROL, VARIABLES
from steepest.cluster.data_source import VARIABLE as DATA_URL
from steepest.cluster.fence import environment
from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.gang_variables import GangAddresses
from steepest.cluster.kubernetes.kinds.description import Kind
from steepest.cluster.kubernetes.kinds.known import JOB as USERS_JOBS
from steepest.cluster.kubernetes.nodes.selected_nodes import GPU
from steepest.cluster.kubernetes.objects import CONTAINER, GATE, ObjectMetadata
from steepest.cluster.kubernetes.steps.kept import VERSION, PodKeeper, kept
from steepest.cluster.port import GangPlace, ReplicaId, ReplicaSpec
from steepest.errors import UntrustedError
from steepest.events.common import CheckpointRef, Resources
from steepest.untrusted.json import decode

MANAGED = "steepest.dev/managed"
CLUSTER = "steepest.dev/cluster"
JOB = "steepest.dev/job"
REPLICA = "steepest.dev/replica"
INCARNATION = "steepest.dev/incarnation"
NAME = "steepest.dev/name"
TEMPLATE = "steepest.dev/template"
REQUESTS = "steepest.dev/requests"
"""The request of a job when it started: a cap may have lowered the pod's requests since."""

VARIABLE = "variable.steepest.dev/"
"""The prefix of annotations that are variables of the container."""

GRACE_S = 30
"""How long a pod may save: the grace of a planned stop unless a pool's parameters differ."""

PORT = 29_500
"""The port of rank 0's framework; the gang's processes listen at the next one. Each pod has its own address."""

UNPRIVILEGED = 65_534
_NAMES = frozenset({"STEEPEST_JOB", "STEEPEST_REPLICA"})
"""The parts of a pod that a client reads."""

USERS_VARIABLES = (
    "STEEPEST_JOB",
    "STEEPEST_REPLICA",
    "STEEPEST_INCARNATION",
    "STEEPEST_RESTORE",
    "STEEPEST_ROLE",
    "STEEPEST_ROLE_INDEX",
    "STEEPEST_RANK",
    "STEEPEST_WORLD_SIZE",
    "STEEPEST_PEERS",
)
"""The variables that a user's container reads from its pod's annotations."""

_SLUG = 30
_DIGEST = 10
_LEAST_CPU_M = 10
_LEAST_MEMORY_MIB = 8


class JobSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The common part of all Jobs of an adapter.

    Attributes:
        namespace: Their namespace.
        label: The value of the label ``steepest.dev/cluster``: the adapter's own.
        claim: The claim of the volume that holds the state folder.
        below: The state folder's path in that volume.
        image: The default image.
        user: User and group of the process.
        most: The most of each resource that a node has: where a job has no cap.
        data_url: The address at which jobs read their data; empty: none.
        kinds: The kinds of users' objects.
        namespaces: Further namespaces, of which users' objects are scheduled too.
    """

    namespace: str
    label: str
    claim: str
    below: Path
    image: str
    user: int
    most: Resources
    data_url: str = ""
    kinds: tuple[Kind, ...] = (USERS_JOBS,)
    namespaces: tuple[str, ...] = ()

    @property
    def all_namespaces(self) -> tuple[str, ...]:
        """Where users' objects are scheduled, the own namespace first."""
        return (self.namespace, *self.namespaces)

    def place(self, namespace: str) -> str:
        """The name of a namespace; an empty one is the own namespace, as in records from before there were others."""
        return namespace or self.namespace


def digest_of(settings: JobSettings, job: str) -> str:
    """A job's name as a label, and as a part of names: any job's name fits, and no two jobs have the same."""
    return hashlib.sha256(f"{settings.label}/{job}".encode()).hexdigest()[:_DIGEST]


def service_of(settings: JobSettings, job: str) -> str:
    """The name of the Service through which the replicas of a gang find each other."""
    return f"steepest-{digest_of(settings, job)}"


def name_of(settings: JobSettings, replica: ReplicaId) -> str:
    """The name of a replica's Job."""
    slug = re.sub(r"[^a-z0-9]+", "-", replica.job)[:_SLUG].strip("-") or "job"
    return f"{slug}-{digest_of(settings, replica.job)}-{replica.index}"


def labels_of_job(settings: JobSettings, job: str) -> dict[str, str]:
    """The labels of all that belongs to a job."""
    return {MANAGED: "true", CLUSTER: settings.label, JOB: digest_of(settings, job)}


def labels_of(settings: JobSettings, replica: ReplicaId) -> dict[str, str]:
    """The labels of a replica's Job and pods."""
    return {**labels_of_job(settings, replica.job), REPLICA: str(replica.index)}


def addresses_of(settings: JobSettings, job: str, gang: GangPlace) -> GangAddresses:
    """Where a gang's replicas listen: at names that the cluster's DNS knows as soon as their pods have addresses."""
    service = service_of(settings, job)
    hosts = tuple(f"{_host(rank)}.{service}" for rank in range(gang.world_size))
    return GangAddresses(hosts, (PORT + 1,) * gang.world_size, PORT)


class JobManifest(msgspec.Struct, frozen=True):
    """A replica's Job, and what its next pod adds.

    Attributes:
        job: The Job; the same for all incarnations with the same spec.
        digest: Of the Job's template; also an annotation of the Job.
        annotations: Of the pod of this incarnation.
    """

    job: dict[str, Any]
    digest: str
    annotations: dict[str, str]


def manifest(
    settings: JobSettings,
    folder: IncarnationFolder,
    spec: ReplicaSpec,
    restore: CheckpointRef | None,
    keeper: PodKeeper | None = None,
) -> JobManifest:
    """The Job of a replica, and the annotations of the pod of one incarnation; ``keeper``: None: it has none."""
    replica = folder.replica
    addresses = addresses_of(settings, replica.job, spec.gang) if spec.gang else None
    variables = environment(folder, spec, restore, addresses=addresses, gpus=None)
    variables |= {DATA_URL: settings.data_url} if settings.data_url else {}
    of_all = msgspec.structs.replace(spec, gang=None, trace="")
    fixed = environment(folder, of_all, None, addresses=None, gpus=None)
    own = {name for name in variables if name not in fixed} | {"STEEPEST_INCARNATION", "STEEPEST_RESTORE"}
    variables |= VARIABLES
    labels = labels_of(settings, replica)
    pod = _pod(settings, replica, spec, variables=variables, own=own)
    if keeper is not None:
        pod = kept(pod, keeper, settings.below, replica)
    template = {"metadata": {"labels": labels}, "spec": pod}
    digest = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).hexdigest()[:32]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name_of(settings, replica),
            "labels": labels,
            "annotations": {NAME: str(replica), TEMPLATE: digest},
        },
        "spec": {
            "suspend": False,  # its pods wait behind the gate
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "template": template,
        },
    }
    added = {f"{VARIABLE}{name}": variables[name] for name in sorted(own | _NAMES)}
    return JobManifest(job, digest, {**added, **_recorded(folder, spec)})


def users_annotations(
    folder: IncarnationFolder,
    spec: ReplicaSpec,
    restore: CheckpointRef | None,
    hosts: tuple[str, ...],
    keeper: PodKeeper | None = None,
) -> dict[str, str]:
    """The annotations of a user's pod for one incarnation; ``hosts``: the host name of each replica.

    A replica that trains alone is a gang of one: its variables are there all the same, and must not be empty.
    """
    place = spec.gang or GangPlace(role="worker", role_index=0, rank=0, world_size=1, nodes=("",))
    addresses = GangAddresses(hosts, (PORT + 1,) * len(hosts), PORT)
    in_gang = msgspec.structs.replace(spec, gang=place)
    variables = environment(folder, in_gang, restore, addresses=addresses, gpus=None)
    added = {f"{VARIABLE}{name}": variables[name] for name in USERS_VARIABLES}
    if keeper is not None:
        added[f"{VARIABLE}{VERSION}"] = keeper.programs
    return {**added, **_recorded(folder, spec)}


def _recorded(folder: IncarnationFolder, spec: ReplicaSpec) -> dict[str, str]:
    requests = msgspec.json.encode(spec.requests).decode()
    return {INCARNATION: str(folder.incarnation), REQUESTS: requests}


def requested_by(pod: ObjectMetadata) -> Resources:
    """The request of a pod's job; empty if another party has spoilt the annotation."""
    try:
        return decode(pod.annotations.get(REQUESTS, ""), Resources)
    except UntrustedError:
        return Resources()


def service(settings: JobSettings, job: str) -> dict[str, Any]:
    """The Service of a gang: it has no address of its own, and gives each replica a name."""
    selector = {CLUSTER: settings.label, JOB: digest_of(settings, job)}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": service_of(settings, job), "labels": {MANAGED: "true", **selector}},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector},
    }


def cpu_caps(requested_m: int, limit_m: int | None, most_m: int) -> tuple[int, int]:
    """Request and limit of CPU in millicores. A request may not exceed the limit; a limit cannot be taken away again."""
    cap = max(limit_m if limit_m is not None else max(most_m, requested_m), _LEAST_CPU_M)
    return min(max(requested_m, 1), cap), cap


def memory_caps(requested_mib: int, limit_mib: int | None, most_mib: int) -> tuple[int, int]:
    """Request and limit of memory in MiB. They always differ: a pod whose caps equal its requests could not change one."""
    cap = max(limit_mib if limit_mib is not None else max(most_mib, requested_mib + 1), _LEAST_MEMORY_MIB)
    return max(min(requested_mib, cap - 1), 1), cap


def _host(index: int) -> str:
    return f"replica-{index}"


def _pod(
    settings: JobSettings, replica: ReplicaId, spec: ReplicaSpec, *, variables: Mapping[str, str], own: set[str]
) -> dict[str, Any]:
    below = settings.below / "jobs" / replica.job
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "schedulingGates": [{"name": GATE}],
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # The first process of the pod is not the job's: the kernel does not deliver SIGTERM to a pid 1 without a handler.
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": GRACE_S,
        "securityContext": {
            "runAsUser": settings.user,
            "runAsGroup": settings.user,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": CONTAINER,
                "image": spec.image or settings.image,
                "imagePullPolicy": "IfNotPresent",  # a move must not wait for a registry that its node has no need of
                "command": [_literally(word) for word in spec.command],
                **({"workingDir": spec.working_dir} if spec.working_dir else {}),
                "env": [_variable(name, value, own) for name, value in sorted(variables.items())],
                "resources": _resources(spec, settings.most),
                "resizePolicy": [{"resourceName": of, "restartPolicy": "NotRequired"} for of in ("cpu", "memory")],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [
                    {
                        "name": "state",
                        "mountPath": CONTROL,
                        "subPathExpr": f"{below}/{replica.index}/$(STEEPEST_INCARNATION)/control",
                    },
                    {"name": "state", "mountPath": CHECKPOINTS, "subPath": f"{below}/checkpoints"},
                ],
            }
        ],
        "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": settings.claim}}],
    }
    if spec.gang is not None:
        pod |= {"hostname": _host(spec.gang.rank), "subdomain": service_of(settings, replica.job)}
    return pod


def _variable(name: str, value: str, own: set[str]) -> dict[str, Any]:
    if name in own:
        return from_annotation(name)
    return {"name": name, "value": _literally(value)}


def from_annotation(name: str) -> dict[str, Any]:
    """A container's variable whose value the pod's annotations have once it gets a place."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{VARIABLE}{name}']"}}}


def _literally(text: str) -> str:
    """A text in which Kubernetes replaces no variables."""
    return text.replace("$(", "$$(")


def _resources(spec: ReplicaSpec, most: Resources) -> dict[str, dict[str, str]]:
    cpu = cpu_caps(spec.requests.cpu_m, spec.cpu_limit_m, most.cpu_m)
    memory = memory_caps(spec.requests.memory_mib, None, most.memory_mib)
    more = {name: str(count) for name, count in spec.requests.extended}
    if spec.requests.gpus:
        more[GPU] = str(spec.requests.gpus)
    return {
        "requests": {"cpu": f"{cpu[0]}m", "memory": f"{memory[0]}Mi", **more},
        "limits": {"cpu": f"{cpu[1]}m", "memory": f"{memory[1]}Mi", **more},
    }

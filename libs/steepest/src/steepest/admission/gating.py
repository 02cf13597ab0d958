"""What is put into an object that its user opts in, so that its pods wait until Steepest places them.

It owns the patches, which make of an object what the policies in ``deploy/kubernetes`` make of it on servers that have such
policies. What an object makes is gated like users' own Jobs, by a label. It must never send a request, and never decide
whether an object is opted in: the API server does, by the labels that the webhook is registered with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from steepest.cluster.container_paths import CHECKPOINTS, CONTROL, KEEPS
from steepest.cluster.kubernetes.kinds.description import Kind, Path
from steepest.cluster.kubernetes.kinds.json_patch import add, put
from steepest.cluster.kubernetes.kinds.marks import change_of_made, part_labels
from steepest.cluster.kubernetes.kinds.users_object import at, raw_roles
from steepest.cluster.kubernetes.manifest import USERS_VARIABLES, from_annotation
from steepest.cluster.kubernetes.objects import GATE, PART, QUEUE, SCHEDULE, ObjectPart
from steepest.cluster.kubernetes.steps.kept import USERS_ENVIRONMENT, USERS_SECURITY, VERSION, users_mounts
from steepest.cluster.kubernetes.users_jobs import CHECKPOINT
from steepest.errors import InputError
from steepest.events.common import CheckpointMode

VOLUME = "steepest"
"""The name of the volume in the pod."""

_JOBS_POD = ("spec", "template", "spec")
_OF_JOB = "{}/cluster/jobs/$(STEEPEST_JOB)"
Part = dict[str, Any]


class JobsVolume(msgspec.Struct, frozen=True, kw_only=True):
    """Where the files of an installation's jobs are.

    Attributes:
        claim: The claim of the volume.
        folder: The state folder's path in that volume: of the first pool's jobs.
        folders: That of each queue whose jobs another pool runs.
        has_keepers: Whether a Job whose user wants that gets a keeper.
    """

    claim: str
    folder: str
    folders: Mapping[str, str] = {}
    has_keepers: bool = False


class _Metadata(ObjectPart, frozen=True):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Container(ObjectPart, frozen=True):
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    security_context: Part | None = None
    env: tuple[Part, ...] | None = None
    volume_mounts: tuple[Part, ...] | None = None


class _Pod(ObjectPart, frozen=True):
    scheduling_gates: tuple[Part, ...] | None = None
    volumes: tuple[Part, ...] | None = None
    containers: tuple[_Container, ...] | None = None


class _Template(ObjectPart, frozen=True):
    spec: _Pod


class _Spec(ObjectPart, frozen=True):
    template: _Template


class JobToGate(ObjectPart, frozen=True):
    """What the patch depends on."""

    spec: _Spec
    metadata: _Metadata = _Metadata()


def patch(job: JobToGate, volume: JobsVolume) -> list[Part]:
    """The operations of a JSON patch (RFC 6902). Applied to a Job that has them already, they change nothing.

    A Job without a container gets the gate alone: the API server refuses it for the container.
    """
    queue = (job.metadata.labels or {}).get(QUEUE, "")
    wants = volume.has_keepers and (job.metadata.annotations or {}).get(CHECKPOINT) == CheckpointMode.SYSTEM
    return [
        add(("spec", "suspend"), True),  # noqa: FBT003 - the value of the field
        add(("spec", "podReplacementPolicy"), "Failed"),
        *_patch_of_pod(_JOBS_POD, job.spec.template.spec, volume, queue, wants_keeper=wants),
    ]


def _patch_of_pod(where: Path, pod: _Pod, volume: JobsVolume, queue: str, *, wants_keeper: bool = False) -> list[Part]:
    gates = add((*where, "schedulingGates"), _with(pod.scheduling_gates, [{"name": GATE}], key="name"))
    if not pod.containers:
        return [gates]
    container, first = pod.containers[0], (*where, "containers", "0")
    mounted = {"name": VOLUME, "persistentVolumeClaim": {"claimName": volume.claim}}
    folder = volume.folders.get(queue, volume.folder)
    mounts, variables, kept = _mounts(folder), _variables(), []
    words = tuple(container.command or ())
    has_one, has_user = words[: len(KEEPS)] == KEEPS, (container.security_context or {}).get("runAsUser") is not None
    if wants_keeper and words and (has_one or not has_user):
        mounts += users_mounts(VOLUME, f"{folder}/cluster", _OF_JOB.format(folder))
        variables += [from_annotation(VERSION), *USERS_ENVIRONMENT]
        if not has_one:
            kept += [add((*first, "args"), [*words, *(container.args or ())])]
        kept += [add((*first, "command"), list(KEEPS)), add((*first, "securityContext"), USERS_SECURITY)]
    return [
        gates,
        add((*where, "volumes"), _with(pod.volumes, [mounted], key="name")),
        add((*first, "env"), _with(container.env, variables, key="name")),
        add((*first, "volumeMounts"), _with(container.volume_mounts, mounts, key="mountPath")),
        *kept,
    ]


def patch_of_other(kind: Kind, found: Mapping[str, Any], volume: JobsVolume) -> list[Part]:
    """The operations that suspend an object of another kind, and gate its pods.

    What makes others gives each of these the label by which it is gated; what makes pods is gated as a Job is.

    Raises:
        InputError: Its roles cannot be read.
    """
    labels = at(found, ("metadata", "labels"))
    known = labels if isinstance(labels, Mapping) else {}
    if kind.made is not None:
        return [*_suspended(kind, found), *change_of_made(kind.made.changes, found, known, {})]
    if not kind.roles.job_template:
        return [*_suspended(kind, found), *_patch_of_pods(kind, found, volume, known.get(QUEUE))]
    is_part = known.get(SCHEDULE) == PART  # it is suspended and resumed with what has made it
    made = [] if is_part else _suspended(kind, found)
    for where, part in raw_roles(kind, found):
        job_template = at(part, kind.roles.job_template)
        made += put(job_template, (*where, *kind.roles.job_template), ("metadata", "labels"), part_labels(known))
        if is_part and at(part, (*kind.roles.template, "spec", "restartPolicy")) is None:
            made.append(add((*where, *kind.roles.template, "spec", "restartPolicy"), "Never"))
    return made


def _suspended(kind: Kind, found: Mapping[str, Any]) -> list[Part]:
    *above, last = kind.suspend
    return put(found, (), tuple(above), {last: True})


def _patch_of_pods(kind: Kind, found: Mapping[str, Any], volume: JobsVolume, queue: object) -> list[Part]:
    made: list[Part] = []
    for where, part in raw_roles(kind, found):
        try:
            pod = msgspec.convert(at(part, kind.roles.template), _Template).spec
        except msgspec.ValidationError as error:
            raise InputError(f"{'.'.join(where)} has no template of pods: {error}"[:500]) from error
        made += _patch_of_pod((*where, *kind.roles.template, "spec"), pod, volume, str(queue or ""))
    return made


def _with(given: Sequence[Part] | None, ours: Sequence[Part], *, key: str) -> list[Part]:
    """The user's items and ours; ours replace those of the same key."""
    named = [item[key] for item in ours]
    return [*(item for item in given or () if item.get(key) not in named), *ours]


def _variables() -> list[Part]:
    return [
        {"name": "STEEPEST_CONTROL", "value": CONTROL},
        {"name": "STEEPEST_CHECKPOINTS", "value": CHECKPOINTS},
        *map(from_annotation, USERS_VARIABLES),
    ]


def _mounts(folder: str) -> list[Part]:
    jobs = _OF_JOB.format(folder)
    return [
        {
            "name": VOLUME,
            "mountPath": CONTROL,
            "subPathExpr": f"{jobs}/$(STEEPEST_REPLICA)/$(STEEPEST_INCARNATION)/control",
        },
        {"name": VOLUME, "mountPath": CHECKPOINTS, "subPathExpr": f"{jobs}/checkpoints"},
    ]

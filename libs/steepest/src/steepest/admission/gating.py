"""What is put into a Job of ``batch/v1`` that its user opts in, so that its pods wait until Steepest places them.

It owns the patches, which make of an object what the policies in ``deploy/kubernetes`` make of it on servers that have such
policies. Of an object that makes Jobs, these are gated like users' own, by a label. It must never send a request, and never
decide whether an object is opted in: the API server does, by the labels that the webhook is registered with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from steepest.cluster.kubernetes.kinds.description import Kind
from steepest.cluster.kubernetes.kinds.json_patch import add, put
from steepest.cluster.kubernetes.kinds.users_object import at, raw_roles
from steepest.cluster.kubernetes.manifest import CHECKPOINTS, CONTROL, USERS_VARIABLES, from_annotation
from steepest.cluster.kubernetes.objects import GATE, PART, SCHEDULE, ObjectPart
from steepest.cluster.kubernetes.users_jobs import QUEUE

VOLUME = "steepest"
"""The name of the volume in the pod."""

_POD = "/spec/template/spec"
Part = dict[str, Any]


class JobsVolume(msgspec.Struct, frozen=True, kw_only=True):
    """Where the files of an installation's jobs are.

    Attributes:
        claim: The claim of the volume.
        folder: The state folder's path in that volume: of the first pool's jobs.
        folders: That of each queue whose jobs another pool runs.
    """

    claim: str
    folder: str
    folders: Mapping[str, str] = {}


class _Metadata(ObjectPart, frozen=True):
    labels: dict[str, str] | None = None


class _Container(ObjectPart, frozen=True):
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
    pod = job.spec.template.spec
    found = [
        _put("/spec/suspend", value=True),
        _put("/spec/podReplacementPolicy", value="Failed"),
        _put(f"{_POD}/schedulingGates", value=_with(pod.scheduling_gates, [{"name": GATE}], key="name")),
    ]
    if not pod.containers:
        return found
    container, first = pod.containers[0], f"{_POD}/containers/0"
    queue = (job.metadata.labels or {}).get(QUEUE, "")
    mounted = {"name": VOLUME, "persistentVolumeClaim": {"claimName": volume.claim}}
    return [
        *found,
        _put(f"{_POD}/volumes", value=_with(pod.volumes, [mounted], key="name")),
        _put(f"{first}/env", value=_with(container.env, _variables(), key="name")),
        _put(
            f"{first}/volumeMounts",
            value=_with(container.volume_mounts, _mounts(volume.folders.get(queue, volume.folder)), key="mountPath"),
        ),
    ]


def patch_of_parts(kind: Kind, found: Mapping[str, Any]) -> list[Part]:
    """The operations that suspend an object which makes Jobs, and give each of these the label by which it is gated.

    Raises:
        InputError: Its roles cannot be read.
    """
    labels = at(found, ("metadata", "labels"))
    queue = labels.get(QUEUE) if isinstance(labels, Mapping) else None
    marked = {SCHEDULE: PART, **({QUEUE: queue} if isinstance(queue, str) else {})}
    made = [add(kind.suspend, True)]  # noqa: FBT003 - the value of the field
    for number, part in enumerate(raw_roles(kind, found)):
        template = at(part, kind.job_template)
        where = (*kind.roles, str(number), *kind.job_template)
        made += put(template, where, ("metadata", "labels"), marked)
    return made


def _put(path: str, *, value: object) -> Part:
    return {"op": "add", "path": path, "value": value}


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
    jobs = f"{folder}/cluster/jobs/$(STEEPEST_JOB)"
    return [
        {
            "name": VOLUME,
            "mountPath": CONTROL,
            "subPathExpr": f"{jobs}/$(STEEPEST_REPLICA)/$(STEEPEST_INCARNATION)/control",
        },
        {"name": VOLUME, "mountPath": CHECKPOINTS, "subPathExpr": f"{jobs}/checkpoints"},
    ]

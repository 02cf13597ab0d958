"""The request of an object that a user has opted in, as a job of a pool.

It owns the name of such a job, which objects can be taken, and what of an object becomes part of a submission. It must never
send a request. An object is a user's word: every field is bounded, and what is wrong with it concerns that object alone.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from steepest.cluster.container_paths import KEEPS
from steepest.cluster.folders.adapter_folder import USERS_OBJECT, IncarnationFolder
from steepest.cluster.kubernetes.kinds.description import Kind
from steepest.cluster.kubernetes.kinds.known import JOB, reference
from steepest.cluster.kubernetes.kinds.kueue import QUEUE_OF_KUEUE, is_queued
from steepest.cluster.kubernetes.kinds.users_object import (
    UsersObject,
    UsersRole,
    at,
    chief_ends,
    raw_roles,
    refuse_unless_met,
    roles,
)
from steepest.cluster.kubernetes.nodes.selected_nodes import requested
from steepest.cluster.kubernetes.nodes.users_node_rules import NodeChoice, common_rule, node_rule
from steepest.cluster.kubernetes.objects import GATE, QUEUE, SCHEDULE, ObjectPart, PodSpec
from steepest.errors import InputError
from steepest.events.common import LEAST_CPU_M, CheckpointMode, Name, Resources
from steepest.events.requests import JobSpec, Role, SuccessRule
from steepest.policies.submission import may_be_users

METRIC = "steepest.dev/metric"
FORMAT = "steepest.dev/log-format"
STEPS = "steepest.dev/steps"
CHECKPOINT = "steepest.dev/checkpoint"

ENDED = "steepest.dev/ended"
"""The annotation of an object whose job has ended, which may stay suspended: how, and its UID, for a copy is new."""

USERS_JOB = USERS_OBJECT
"""A variable of a job's spec: which object its user has made (``known.reference``). Users' own never begin like this."""

_SLUG = 50
_UID = 8
_UUID = 36
_WORDS = 64
_LETTERS = 1_000
_UNNAMED = "worker"


class _UsersSecurity(ObjectPart, frozen=True):
    run_as_user: int | None = None
    run_as_group: int | None = None
    fs_group: int | None = None
    supplemental_groups: tuple[int, ...] | None = None


class _UsersContainer(ObjectPart, frozen=True):
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    security_context: _UsersSecurity | None = None


class _UsersPodSpec(NodeChoice, frozen=True):
    containers: tuple[_UsersContainer, ...] = ()
    security_context: _UsersSecurity | None = None
    host_pid: bool = msgspec.field(default=False, name="hostPID")
    share_process_namespace: bool | None = None
    resource_claims: tuple[Any, ...] = ()
    restart_policy: str = ""


class _UsersTemplate(ObjectPart, frozen=True):
    spec: _UsersPodSpec = _UsersPodSpec()


class _UsersPods(msgspec.Struct, frozen=True):
    """A role, and what its template says."""

    role: UsersRole
    pod: _UsersPodSpec
    requests: Resources

    @property
    def container(self) -> _UsersContainer:
        return self.pod.containers[0]


def job_name(name: str, uid: str) -> str:
    """The name of a user's object as a job: one that was deleted and made again is another one."""
    slug = re.sub(r"[^a-z0-9-]+", "-", name)[:_SLUG].strip("-") or "job"
    return f"{slug}.{uid[:_UID]}"


def is_of(job: str, uid: str) -> bool:
    """Whether a job was submitted for the user's object with this UID, which then is its request."""
    return len(uid) == _UUID and may_be_users(job) and job.endswith(f".{uid[:_UID]}")


def is_users(job: str, newest: IncarnationFolder | None) -> bool:
    """Whether a user's object makes the pods of a job, by the spec of its newest incarnation. It blocks.

    The name alone decides where nothing was started yet, or an earlier release has started it.
    """
    spec = newest.planned() if newest is not None else None
    return may_be_users(job) if spec is None or spec.users_object is None else bool(spec.users_object)


def queue_of(asked: UsersObject) -> str:
    """The queue that its user names, which may be no name of one."""
    return asked.metadata.labels.get(QUEUE, "default")


def submission(
    kind: Kind, asked: UsersObject, having: UsersObject | None = None, *, namespace: str = "", user: int | None = None
) -> JobSpec:
    """The request of the object.

    Args:
        kind: Its kind.
        asked: The object.
        having: The object that has its roles; None: itself.
        namespace: Its namespace; empty: the installation's own.
        user: The user of jobs with keepers; None: none can have one there.

    Raises:
        InputError: It cannot be scheduled; the message says why, in words for its user.
    """
    fields = asked.read()
    if is_queued(asked.metadata) and not (kind.may_be_queued and _is_gated(kind, fields)):
        raise InputError(
            "it is in a queue of Kueue, which suspends and resumes it",
            hint=f"make it again without the label {QUEUE_OF_KUEUE}, or without {SCHEDULE}",
        )
    refuse_unless_met(kind.demands, fields)
    queue = _named(queue_of(asked))
    try:
        found = _submission(kind, asked, fields if having is None or having is asked else having.read(), queue, user)
    except InputError as error:
        if kind.made is None:
            raise
        raise InputError(f"{error}", hint=f"in {kind.made.where}, {error.hint}") from error
    return msgspec.structs.replace(found, env={USERS_JOB: reference(kind, asked.metadata.name, namespace)})


def _is_gated(kind: Kind, fields: dict[str, Any]) -> bool:
    """Whether all of its pods wait for places, as far as its templates say."""
    said = (at(part, (*kind.roles.template, "spec", "schedulingGates")) for _, part in raw_roles(kind, fields))
    return all(isinstance(gates, list) and {"name": GATE} in gates for gates in said)


def _submission(kind: Kind, asked: UsersObject, fields: dict[str, Any], queue: str, user: int | None) -> JobSpec:
    read = roles(kind, fields)
    pods = tuple(map(_pods, read))
    annotations = asked.metadata.annotations
    first = pods[0]
    words = (*first.container.command, *first.container.args)
    is_alone = sum(role.replicas for role in read) == 1
    if (mode := _mode(annotations.get(CHECKPOINT))) is not None:
        _refuse_unless_kept(kind, first.pod, user, is_alone=is_alone)
    words = words[len(KEEPS) if words[: len(KEEPS)] == KEEPS else 0 :][:_WORDS]
    found = JobSpec(
        command=tuple(word[:_LETTERS] for word in words) or (first.container.image[:_LETTERS] or "image",),
        image=first.container.image[:_LETTERS],
        requests=first.requests,
        roles=() if is_alone else tuple(map(_role, pods)),
        retries=min(role.retries for role in read),
        success=SuccessRule.CHIEF if chief_ends(kind, fields, read) else SuccessRule.ALL,
        queue=queue,
        metric=annotations.get(METRIC, "loss")[:_LETTERS],
        log_format=annotations.get(FORMAT, "auto")[:_LETTERS],
        steps=_number(annotations.get(STEPS)),
        node_rule=common_rule([node_rule(each.pod) for each in pods]),
        checkpoint_mode=mode,
    )
    try:
        return msgspec.convert(msgspec.to_builtins(found), JobSpec)
    except msgspec.ValidationError as error:
        raise InputError(f"it cannot be a job: {error}", hint="correct the field") from error


def _mode(text: str | None) -> CheckpointMode | None:
    if text is None:
        return None
    if text != CheckpointMode.SYSTEM:
        raise InputError(f"{text[:50]!r} is no way to save its pod", hint=f"set the annotation {CHECKPOINT} to system")
    return CheckpointMode.SYSTEM


def _refuse_unless_kept(kind: Kind, pod: _UsersPodSpec, user: int | None, *, is_alone: bool) -> None:
    """Refuse an object whose user wants a keeper, and whose pod cannot have one.

    The API server has put the keeper into the pod's template when the object was made. ``user``: that of jobs with keepers.
    """
    container, said = pod.containers[0], pod.security_context or _UsersSecurity()
    own, without = container.security_context or _UsersSecurity(), f"or leave the annotation {CHECKPOINT} out"
    if kind.name != JOB.name or not is_alone:
        raise InputError("only a Job of one pod can have a keeper", hint=without)
    if user is None:
        raise InputError("a job has a keeper only in the installation's own namespace", hint=without)
    if container.command[: len(KEEPS)] != KEEPS:
        if not container.command:
            why, hint = "it does not state its command, which its keeper starts", "set command of the container"
        elif own.run_as_user is not None:
            why, hint = "its container has a user of its own", "set runAsUser of the pod's securityContext"
        else:
            why, hint = "pods may have no keeper here", "let the operator set the chart's jobs.systemCheckpoints"
        raise InputError(why, hint=f"{hint}, {without}")
    if {said.run_as_user, said.run_as_group} - {None, user} or said.fs_group is not None or said.supplemental_groups:
        raise InputError(f"a job with a keeper has the user and the group {user}, and no other group", hint=without)
    if pod.host_pid or pod.share_process_namespace:
        hint = f"leave hostPID and shareProcessNamespace out, {without}"
        raise InputError("a keeper needs process ids of its own", hint=hint)


def _pods(role: UsersRole) -> _UsersPods:
    try:
        pod = msgspec.convert(role.template, _UsersTemplate).spec
        requests = requested(msgspec.convert(at(role.template, ("spec",)) or {}, PodSpec))
    except msgspec.ValidationError as error:
        raise InputError(f"the template of its pods cannot be read: {error}"[:500], hint="correct the field") from error
    if len(pod.containers) != 1:
        raise InputError("its pods have more than one container", hint="leave one")
    if pod.resource_claims:
        hint = "leave resourceClaims out, and request the devices by the name of their device plugin's resource"
        raise InputError("its pods claim devices (resourceClaims), of which Steepest keeps no account", hint=hint)
    if (pod.restart_policy if role.restart is None else role.restart) != "Never":
        raise InputError("its containers are restarted in place", hint="set restartPolicy to Never")
    # Many pods ask for no CPU at all: they count as some that ask for the least.
    return _UsersPods(role, pod, msgspec.structs.replace(requests, cpu_m=max(requests.cpu_m, LEAST_CPU_M)))


def _role(pods: _UsersPods) -> Role:
    """Its size is fixed: its pods all belong to one object, which runs whole or not at all."""
    return Role(name=pods.role.name or _UNNAMED, replicas=pods.role.replicas, requests=pods.requests)


def _named(queue: str) -> str:
    try:
        return msgspec.convert(queue, Name)
    except msgspec.ValidationError as error:
        raise InputError(f"{queue!r} is no name of a queue", hint=f"change the label {QUEUE}") from error


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and int(text[:18]) > 0):
        raise InputError(f"{text[:50]!r} is no number of steps", hint=f"change the annotation {STEPS}")
    return int(text[:18])

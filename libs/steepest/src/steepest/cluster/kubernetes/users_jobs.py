"""What a user's Job of ``batch/v1`` asks for, as a job of a pool.

It owns the name of such a job, which Jobs can be taken, and what of a Job becomes part of a submission. It must never send a
request. An object is a user's word: every field is bounded, and what is wrong with it concerns that Job alone.
"""

from __future__ import annotations

import re

import msgspec

from steepest.cluster.kubernetes.nodes.selected_nodes import resources
from steepest.cluster.kubernetes.nodes.users_node_rules import NodeChoice, node_rule
from steepest.cluster.kubernetes.objects import ClusterObject, ContainerCaps, ObjectCondition, ObjectPart
from steepest.errors import InputError
from steepest.events.common import Name
from steepest.events.requests import JobSpec

QUEUE = "steepest.dev/queue"
METRIC = "steepest.dev/metric"
FORMAT = "steepest.dev/log-format"
STEPS = "steepest.dev/steps"

USERS_JOB = "STEEPEST_KUBERNETES_JOB"
"""A variable of a job's spec: the name of the Job that its user has made. Users' own variables never begin like this."""

_SLUG = 50
_UID = 8
_UUID = 36
_NAMED = re.compile(r".+\.[0-9a-f]{8}", re.ASCII)
_WORDS = 64
_LETTERS = 1_000


class _UsersContainer(ObjectPart, frozen=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    resources: ContainerCaps = ContainerCaps()


class _UsersPodSpec(NodeChoice, frozen=True):
    containers: tuple[_UsersContainer, ...] = ()
    restart_policy: str = ""


class _UsersTemplate(ObjectPart, frozen=True):
    spec: _UsersPodSpec = _UsersPodSpec()


class _UsersJobSpec(ObjectPart, frozen=True):
    suspend: bool = False
    parallelism: int = 1
    completions: int | None = 1
    backoff_limit: int = 6
    template: _UsersTemplate = _UsersTemplate()


class _UsersJobStatus(ObjectPart, frozen=True):
    conditions: tuple[ObjectCondition, ...] = ()


class UsersJob(ClusterObject, frozen=True):
    """A Job that is opted in."""

    spec: _UsersJobSpec = _UsersJobSpec()
    status: _UsersJobStatus = _UsersJobStatus()

    @property
    def is_over(self) -> bool:
        """Whether it runs no pods any more, and never will."""
        return any(one.type in {"Complete", "Failed"} and one.status == "True" for one in self.status.conditions)


def job_name(name: str, uid: str) -> str:
    """The name of a user's Job as a job: a Job that was deleted and made again is another one."""
    slug = re.sub(r"[^a-z0-9-]+", "-", name)[:_SLUG].strip("-") or "job"
    return f"{slug}.{uid[:_UID]}"


def is_of(job: str, uid: str) -> bool:
    """Whether a job was submitted for the user's Job with this UID, which then is its request."""
    return len(uid) == _UUID and may_be_users(job) and job.endswith(f".{uid[:_UID]}")


def may_be_users(job: str) -> bool:
    """Whether a job's name is like those of users' Jobs."""
    return _NAMED.fullmatch(job) is not None


def submission(job: UsersJob) -> JobSpec:
    """What it asks for.

    Raises:
        InputError: It cannot be scheduled; the message says why, in words for its user.
    """
    spec, pod = job.spec, job.spec.template.spec
    if len(pod.containers) != 1:
        raise InputError("its pods have more than one container", hint="leave one")
    if (spec.parallelism, spec.completions) != (1, 1):
        raise InputError("it has more than one pod", hint="set parallelism and completions to 1")
    if pod.restart_policy != "Never":
        raise InputError("its containers are restarted in place", hint="set restartPolicy to Never")
    container, labels, annotations = pod.containers[0], job.metadata.labels, job.metadata.annotations
    asked = resources(container.resources.requests or container.resources.limits)
    words = (*container.command, *container.args)[:_WORDS]
    found = JobSpec(
        command=tuple(word[:_LETTERS] for word in words) or (container.image[:_LETTERS] or "image",),
        image=container.image[:_LETTERS],
        env={USERS_JOB: job.metadata.name},
        requests=asked,
        retries=max(spec.backoff_limit, 0),
        queue=_named(labels.get(QUEUE, "default")),
        metric=annotations.get(METRIC, "loss")[:_LETTERS],
        log_format=annotations.get(FORMAT, "auto")[:_LETTERS],
        steps=_number(annotations.get(STEPS)),
        node_rule=node_rule(pod),
    )
    try:
        return msgspec.convert(msgspec.to_builtins(found), JobSpec)
    except msgspec.ValidationError as error:
        raise InputError(f"it cannot be a job: {error}", hint="correct the field") from error


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

"""Events of ``events.k8s.io`` about a Job, so that ``kubectl describe job`` explains what was decided.

They can be about another object that a user has opted in as well. What is found of a running job is a condition of its Job
too, until that is over. It owns their form and their names. It must never know
what is worth one, or when to write it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from steepest.cluster.kubernetes.api import CONFLICT, MERGE, AnswerError, KubernetesApi
from steepest.cluster.kubernetes.kinds.description import Kind
from steepest.cluster.kubernetes.kinds.known import JOB
from steepest.cluster.kubernetes.manifest import JobSettings

CONTROLLER = "steepest.dev/migrator"
"""Who writes them, as ``kubectl describe`` shows it."""

_NOTE_BYTES = 1_024
"""The API server refuses a longer one."""

_DIGEST = 20
_LATEST_MS = 1 << 42  # a record's time comes from outside, and may be no date at all


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an Event.

    Attributes:
        reason: One word in CamelCase, for programs.
        message: A sentence, for people.
        is_warning: Whether it is something that its reader may want to mend.
        at_ms: When it happened, in milliseconds of the wall clock; None: it is so as long as the Job is as it is.
    """

    reason: str
    message: str
    is_warning: bool = False
    at_ms: int | None = None


class JobSubject(msgspec.Struct, frozen=True):
    """The object that an Event is about. One that was deleted and made again has another UID.

    Attributes:
        name: Its name.
        uid: Its UID.
        kind: Its kind.
        namespace: Its namespace, which the Event has too; empty: the installation's own.
    """

    name: str
    uid: str
    kind: Kind = JOB
    namespace: str = ""


def event_of(settings: JobSettings, job: JobSubject, notice: Notice, now_ms: int) -> dict[str, Any]:
    """The Event. The same notice about the same Job has the same name: written again, it still exists once.

    Nothing that a user has written is a part of that name.
    """
    namespace = settings.place(job.namespace)
    when = "" if notice.at_ms is None else notice.at_ms
    what = f"{settings.label}/{job.uid}/{when}/{notice.reason}/{notice.message}"
    happened_ms = now_ms if notice.at_ms is None else notice.at_ms
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": f"steepest-{hashlib.sha256(what.encode()).hexdigest()[:_DIGEST]}",
            "namespace": namespace,
        },
        "eventTime": _time(happened_ms).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "regarding": {
            "apiVersion": job.kind.api,
            "kind": job.kind.name,
            "namespace": namespace,
            "name": job.name,
            "uid": job.uid,
        },
        "type": "Warning" if notice.is_warning else "Normal",
        "reason": notice.reason,
        "action": "Schedule",
        "note": _cut(notice.message),
        "reportingController": CONTROLLER,
        "reportingInstance": settings.label,
    }


async def set_conditions(
    api: KubernetesApi, settings: JobSettings, job: JobSubject, changes: Mapping[str, Notice | None]
) -> None:
    """Set conditions of a Job by their types, or remove those that are None; its controller keeps conditions of others.

    Raises:
        AnswerError: There is no such Job, or another one has its name now.
        ClusterError: They were not set.
        UncertainError: They may have been set; the same call again does it once.
    """
    conditions: list[dict[str, Any]] = []
    for kind, notice in changes.items():
        if notice is None:
            conditions.append({"type": kind, "$patch": "delete"})
            continue
        at = _time(notice.at_ms or 0).strftime("%Y-%m-%dT%H:%M:%SZ")
        said = {"reason": notice.reason, "message": _cut(notice.message), "lastTransitionTime": at}
        conditions.append({"type": kind, "status": "True", **said})
    path = f"/apis/batch/v1/namespaces/{settings.place(job.namespace)}/jobs/{job.name}/status"
    change = {"metadata": {"uid": job.uid}, "status": {"conditions": conditions}}
    await api.request("PATCH", path, body=change, content=MERGE)


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(min(max(at_ms, 0), _LATEST_MS) / 1000, UTC)


def _cut(message: str) -> str:
    return message.encode()[:_NOTE_BYTES].decode(errors="ignore")


async def post_event(api: KubernetesApi, settings: JobSettings, job: JobSubject, notice: Notice, now_ms: int) -> None:
    """Write an Event about a Job; succeeds if it is there.

    Raises:
        ClusterError: It was not written.
        UncertainError: It may have been written; the same call again does it once.
    """
    path = f"/apis/events.k8s.io/v1/namespaces/{settings.place(job.namespace)}/events"
    try:
        await api.request("POST", path, body=event_of(settings, job, notice, now_ms))
    except AnswerError as error:
        if error.status != CONFLICT:
            raise

"""What makes a user's object the installation's own, and what suspends it, as patches that every kind of object takes.

It owns the patches. It must never send one.
"""

from __future__ import annotations

from typing import Any

from steepest.cluster.kubernetes.kinds.description import Kind
from steepest.cluster.kubernetes.kinds.json_patch import Operation, add, nested, put
from steepest.cluster.kubernetes.kinds.users_object import UsersObject, at, raw_roles
from steepest.cluster.kubernetes.manifest import NAME, JobSettings, labels_of_job
from steepest.cluster.kubernetes.objects import GATE


def marks(kind: Kind, found: UsersObject, settings: JobSettings, job: str) -> list[Operation]:
    """The JSON patch (RFC 6902) of an object without these marks. It fails where the object has changed since it was read.

    Args:
        kind: The object's kind.
        found: The object.
        settings: What the installation's Jobs have in common.
        job: Its name as a job.

    Raises:
        InputError: It cannot be read.
    """
    fields = found.read()
    labels = labels_of_job(settings, job)
    known = found.metadata
    top = {"metadata": {"labels": known.labels, **({"annotations": known.annotations} if known.annotations else {})}}
    made = [
        {"op": "test", "path": "/metadata/uid", "value": known.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": known.resource_version},
        *put(top, (), ("metadata", "labels"), labels),
        *put(top, (), ("metadata", "annotations"), {NAME: job}),
    ]
    for number, part in enumerate(raw_roles(kind, fields)):
        where = (*kind.roles, str(number), *kind.template) if kind.roles else kind.template
        template = at(part, kind.template)
        made += put(template, where, ("metadata", "labels"), labels)
        gates = at(template, ("spec", "schedulingGates"))
        has = gates if isinstance(gates, list) else []
        if not any(at(gate, ("name",)) == GATE for gate in has):
            made.append(add((*where, "spec", "schedulingGates"), [*has, {"name": GATE}]))
    return made


def suspension(kind: Kind, uid: str, *, suspended: bool) -> dict[str, Any]:
    """The merge patch (RFC 7386) that suspends or resumes the object with this UID, and no other one of its name."""
    return {"metadata": {"uid": uid}, **nested(kind.suspend, suspended)}

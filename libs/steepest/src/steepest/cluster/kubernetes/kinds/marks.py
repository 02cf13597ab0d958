"""Patches that mark a user's object as the installation's own, and that suspend it, for every kind of object.

It owns the patches. It must never send one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steepest.cluster.kubernetes.kinds.description import Kind, Path, TakenChanges
from steepest.cluster.kubernetes.kinds.json_patch import Operation, add, nested, put
from steepest.cluster.kubernetes.kinds.kueue import is_queued
from steepest.cluster.kubernetes.kinds.users_object import UsersObject, at, raw_roles
from steepest.cluster.kubernetes.manifest import NAME, JobSettings, labels_of_job
from steepest.cluster.kubernetes.objects import GATE, PART, QUEUE, SCHEDULE
from steepest.errors import InputError

PARTY = "steepest.dev/schedule"
"""Steepest's name among the parties that change what a user's object makes."""


def marks(
    kind: Kind, found: UsersObject, settings: JobSettings, job: str, having: UsersObject | None = None
) -> list[Operation]:
    """The JSON patch (RFC 6902) of an object without these marks. It fails where the object has changed since it was read.

    Args:
        kind: The object's kind.
        found: The object.
        settings: What the installation's Jobs have in common.
        job: Its name as a job.
        having: The object that has its roles; None: itself.

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
    if is_queued(known):  # Kueue puts its template back whenever it stops it, so that its pods are marked themselves
        return made
    if kind.made is not None:
        roles = raw_roles(kind, having.read() if having is not None else {})
        names = [str(at(part, kind.roles.name)) for _, part in roles]
        changed = nested(kind.roles.path, [_changed_role(kind, name, labels) for name in names])
        return [*made, *change_of_made(kind.made.changes, fields, known.labels, changed)]
    for where, part in raw_roles(kind, fields):
        made += _mark_template((*where, *kind.roles.template), at(part, kind.roles.template), labels)
    return made


def change_of_made(
    changes: TakenChanges, fields: Mapping[str, Any], labels: Mapping[str, str], changed: Mapping[str, Any]
) -> list[Operation]:
    """The operations that put Steepest's change of the object that an object makes in place of what was there of it.

    That object is gated when it is created, as a part of its user's, by the labels that the change gives it.

    Args:
        changes: Where the user's object takes it.
        fields: The fields of the user's object.
        labels: Its labels.
        changed: What else is changed.

    Raises:
        InputError: There is something else in place of the changes.
    """
    there = at(fields, changes.path) or []
    if not isinstance(there, list) or not all(isinstance(each, Mapping) for each in there):
        raise InputError(f"{'.'.join(changes.path)} is no list of changes", hint="correct the field")
    others = [each for each in there if each.get(changes.by) != PARTY]
    own = {changes.by: PARTY, **nested(changes.changed, {"metadata": {"labels": part_labels(labels)}, **changed})}
    return [add(changes.path, [*others, own])]


def part_labels(labels: Mapping[str, Any]) -> dict[str, str]:
    """The labels by which what an object makes is gated as a part of it, in its queue."""
    queue = labels.get(QUEUE)
    return {SCHEDULE: PART, **({QUEUE: queue} if isinstance(queue, str) else {})}


def suspension(kind: Kind, uid: str, *, suspended: bool) -> dict[str, Any]:
    """The merge patch (RFC 7386) that suspends or resumes the object with this UID, and no other one of its name."""
    return {"metadata": {"uid": uid}, **nested(kind.suspend, suspended)}


def _changed_role(kind: Kind, name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    template = {"metadata": {"labels": dict(labels)}, "spec": {"schedulingGates": [{"name": GATE}]}}
    return {**nested(kind.roles.name, name), **nested(kind.roles.template, template)}


def _mark_template(where: Path, template: object, labels: Mapping[str, str]) -> list[Operation]:
    made = put(template, where, ("metadata", "labels"), labels)
    gates = at(template, ("spec", "schedulingGates"))
    has = gates if isinstance(gates, list) else []
    if not any(at(gate, ("name",)) == GATE for gate in has):
        made.append(add((*where, "spec", "schedulingGates"), [*has, {"name": GATE}]))
    return made

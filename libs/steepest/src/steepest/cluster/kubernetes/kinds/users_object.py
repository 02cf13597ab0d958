"""An object that a user has made, read by the description of its kind.

It owns the reading: an object is a user's word, so every part is looked for, checked and bounded, and what is wrong with it
concerns that object alone. It must never send a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from steepest.cluster.kubernetes.kinds.description import RETRIES, Demand, Kind, Path, Roles
from steepest.cluster.kubernetes.objects import ClusterObject, ObjectCondition, ObjectPart
from steepest.errors import InputError, UntrustedError
from steepest.events.requests import MOST_REPLICAS
from steepest.untrusted.json import decode

ROLES_MOST = 64
"""Roles of an object: each is a part of every record about its job's size."""

_WORD = 50


class _UsersStatus(ObjectPart, frozen=True):
    conditions: tuple[ObjectCondition, ...] = ()


class UsersObject(ClusterObject, frozen=True):
    """An object that is opted in, as the API server sends it; its ``spec`` is read only when it is looked at."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: _UsersStatus = _UsersStatus()

    def is_over(self, kind: Kind) -> bool:
        """Whether it runs no pods any more, and never will."""
        return any(one.type in kind.ends and one.status == "True" for one in self.status.conditions)

    def read(self) -> dict[str, Any]:
        """Its fields, from the top.

        Raises:
            InputError: They cannot be read.
        """
        try:
            return {"spec": decode(bytes(self.spec), dict[str, Any])}
        except UntrustedError as error:
            raise InputError(f"it cannot be read: {error}", hint="correct the field") from error


class UsersRole(msgspec.Struct, frozen=True, kw_only=True):
    """A role of an object.

    Attributes:
        name: Its name; empty: it has none.
        jobs: How many Jobs there are.
        pods: How many pods each of them has.
        retries: After how many failures a Job has failed.
        template: The template of its pods, as it was found.
        restart: What it says of containers that end; None: its template says that.
    """

    name: str
    jobs: int
    pods: int
    retries: int
    template: Any
    restart: str | None = None

    @property
    def replicas(self) -> int:
        """How many pods it has."""
        return self.jobs * self.pods


def at(part: object, path: Path) -> object:
    """A part of an object; None where it is not there."""
    for name in path:
        if not isinstance(part, Mapping):
            return None
        part = part.get(name)
    return part


def is_suspended(kind: Kind, found: Mapping[str, Any]) -> bool:
    """Whether the object with these fields is suspended."""
    return at(found, kind.suspend) is True


def roles(kind: Kind, found: Mapping[str, Any]) -> tuple[UsersRole, ...]:
    """The roles of the object with these fields, whose pods are a gang, in the order of their ranks.

    Args:
        kind: Its kind, or that of the object which made it.
        found: Its fields.

    Raises:
        InputError: It cannot be scheduled; the message says why, in words for its user.
    """
    parts = raw_roles(kind, found)
    refuse_unless_met(kind.roles.demands, found)
    read = tuple(_role(kind.roles, where, part) for where, part in parts)
    if len({role.name for role in read}) < len(read):
        raise InputError("two of its roles have one name", hint="give each a name of its own")
    total = sum(role.replicas for role in read)
    if total > MOST_REPLICAS or any(role.replicas < 1 for role in read):
        raise InputError(
            "it has a role without pods, or too many pods", hint=f"let all roles together have {MOST_REPLICAS} at most"
        )
    if total > 1:
        for _, part in parts:
            _refuse_without_index(kind.roles, part)
    return read


def raw_roles(kind: Kind, found: Mapping[str, Any]) -> list[tuple[Path, Any]]:
    """The roles of the object, each with its path there.

    Raises:
        InputError: There are none, or too many, or others than its kind has.
    """
    said = kind.roles
    if not said.path:
        return [((), found)]
    there = at(found, said.path)
    if said.names:
        if not isinstance(there, Mapping) or not there or not set(there) <= set(said.names):
            raise InputError(
                f"{'.'.join(said.path)} has none of {', '.join(said.names)}, or others", hint="correct the field"
            )
        return [((*said.path, name), there[name]) for name in said.names if name in there]
    if not isinstance(there, list) or not 1 <= len(there) <= ROLES_MOST:
        raise InputError(f"{'.'.join(said.path)} is no list of 1 to {ROLES_MOST}", hint="correct the field")
    return [((*said.path, str(number)), part) for number, part in enumerate(there)]


def chief_ends(kind: Kind, found: Mapping[str, Any], read: tuple[UsersRole, ...]) -> bool:
    """Whether the object is over with its first pod, and not with all of them.

    Raises:
        InputError: It is over with others; the message says why, in words for its user.
    """
    said = kind.roles
    if said.chief:
        named: object = [said.chief.lower()] if len(read) > 1 and read[0].name == said.chief.lower() else None
    else:
        named = at(found, said.success) if said.success else None
    if not named or (isinstance(named, list) and set(map(str, named)) == {role.name for role in read}):
        if said.success and at(found, (*said.success[:-1], "operator")) not in {None, "All"} and len(read) > 1:
            raise InputError(
                "it is over with any of its roles", hint="name the first one as the target of successPolicy"
            )
        return False
    if named == [read[0].name] and read[0].replicas == 1:
        return True
    raise InputError(
        f"it is over with roles that are not its first pod: {named}"[:500],
        hint="let successPolicy name all replicated Jobs, or the first one if it has one pod",
    )


def rank_of(kind: Kind, read: tuple[UsersRole, ...], labels: Mapping[str, str]) -> int | None:
    """Which replica of the gang a pod with these labels is; None: they do not say."""
    said, first = kind.roles, 0
    for role in read:
        if not said.role_label or labels.get(said.role_label) == role.name:
            if sum(each.replicas for each in read) == 1:
                return 0  # its only pod has no index where its Job does not count them
            job = _index(labels.get(said.job_label, ""), role.jobs) if said.job_label else 0
            pod = _index(labels.get(said.pod_label, ""), role.pods)
            return None if job is None or pod is None else first + job * role.pods + pod
        first += role.replicas
    return None


def hosts(kind: Kind, name: str, found: Mapping[str, Any], read: tuple[UsersRole, ...]) -> tuple[str, ...]:
    """The host name of each replica, as far as the object's own controller and its subdomain make them."""
    said = kind.roles
    named = at(found, said.subdomain) if said.subdomain else None
    domain = named if isinstance(named, str) and named else name if said.is_own_domain else ""
    return tuple(
        "-".join((name, *((role.name,) if said.path else ()), *((str(job),) if said.jobs else ()), str(pod)))
        + (f".{domain}" if domain else "")
        for role in read
        for job in range(role.jobs)
        for pod in range(role.pods)
    )


def refuse_unless_met(demands: tuple[Demand, ...], part: object) -> None:
    """Refuse an object that does not say what it must.

    Raises:
        InputError: The message says what it does say, in words for its user.
    """
    for demand in demands:
        value = at(part, demand.path)
        if not any(value is one or (type(value) is type(one) and value == one) for one in demand.allowed):
            raise InputError(demand.why, hint=demand.hint)


def _role(said: Roles, where: Path, part: object) -> UsersRole:
    refuse_unless_met(said.role_demands, part)
    pods = _number(part, said.pods, 1)
    completions = _number(part, said.completions, pods) if said.completions else pods
    if completions != pods:
        raise InputError(
            "its pods do not run side by side to one end", hint="set parallelism and completions to the same number"
        )
    template = at(part, said.template)
    if template is None:
        raise InputError("it has no template of its pods", hint="see docs/kubernetes.md")
    return UsersRole(
        name=where[-1].lower() if said.names else _text(part, said.name) if said.name else "",
        jobs=_number(part, said.jobs, 1) if said.jobs else 1,
        pods=pods,
        retries=_number(part, said.retries, RETRIES) if said.retries else 0,
        template=template,
        restart=str(at(part, said.restart))[:_WORD] if said.restart else None,
    )


def _refuse_without_index(said: Roles, part: object) -> None:
    mode = at(part, said.completion_mode) if said.completion_mode else None
    if (mode or said.default_mode) != "Indexed":
        raise InputError("it has more than one pod, and they have no index", hint="set completionMode to Indexed")


def _number(part: object, path: Path, default: int) -> int:
    value = at(part, path)
    if value is None:
        return default
    if type(value) is not int or not value >= 0:
        raise InputError(f"{'.'.join(path)} is no number", hint="correct the field")
    return value


def _text(part: object, path: Path) -> str:
    value = at(part, path)
    if not isinstance(value, str):
        raise InputError(f"{'.'.join(path)} is no text", hint="correct the field")
    return value


def _index(text: str, count: int) -> int | None:
    """The number that a label has, if it is one below ``count``."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):  # noqa: PLR2004 - longer than any count
        return None
    return number if (number := int(text)) < count else None

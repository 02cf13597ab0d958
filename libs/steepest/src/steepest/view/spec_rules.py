"""Faults in a job's specification, regardless of nodes and other jobs.

It owns these rules. The command line asks them before it submits, and the placer again, because a log may hold anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from steepest.events.common import KEPT, LARGEST, LEAST_CPU_M, Resources
from steepest.events.requests import MOST_REPLICAS, JobSpec, Role, SuccessRule
from steepest.view.refusal import Refusal, first

WHOLE_GPU_M = 1000


class WrongSpec(Refusal):
    """Why a job's description is refused; each sentence begins with the field."""

    NO_COMMAND = "no-command", "a job has a command; this one names no program"
    NO_REPLICA = "no-replica", "a job has at least one replica"
    REPLICAS_AND_ROLES = "replicas-and-roles", "replicas: the roles say how many there are; leave it out"
    TOO_MANY_REPLICAS = "too-many-replicas", "replicas: the job has up to {most}, and {limit} are allowed"
    KEPT_GANG = "kept-gang", "checkpoint_mode: a gang has a keeper wherever it can have one; leave it out"
    DUPLICATE_ROLE = "duplicate-role", "roles: two of them are named {duplicate}"
    LEAVES_UNFINISHED = (
        "leaves-unfinished",
        'roles.{leaving}.may_leave: a replica that has left never finishes, so it needs success = "chief"',
    )


class WrongRole(Refusal):
    """Why one role is refused; each sentence begins with the field."""

    MIN_ABOVE_MAX = "min-above-max", "roles.{role.name}.min: {role.fewest} is more than max, {role.most}"
    REPLICAS_OUTSIDE = (
        "replicas-outside",
        "roles.{role.name}.replicas: {role.replicas} is not from min, {role.fewest}, to max, {role.most}",
    )
    SIZE_OUTSIDE = (
        "size-outside",
        "roles.{role.name}.sizes: {outside} is not from min, {role.fewest}, to max, {role.most}",
    )
    SIZE_MISSING = "size-missing", "roles.{role.name}.sizes: {role.replicas}, its replicas, is not among them"
    GPUS_AND_SHARE = (
        "gpus-and-share",
        "{where}: gpus and gpu_m exclude each other; a replica has whole GPUs or a share of one",
    )
    SHARE_TOO_LARGE = "share-too-large", "{where}.gpu_m: a share of a GPU is less than 1000"
    ASKS_FOR_NOTHING = "asks-for-nothing", "{where}.cpu_m: a replica asks for at least {least}m CPU, a GPU or a device"
    EXTENDED_AMOUNT = "extended-amount", "{where}.extended: amounts are from 1 to {largest}, each of another resource"


SPEC: Mapping[WrongSpec, Callable[[JobSpec], bool]] = {
    WrongSpec.NO_COMMAND: lambda spec: not spec.command,
    WrongSpec.NO_REPLICA: lambda spec: spec.replicas < 1,
    WrongSpec.REPLICAS_AND_ROLES: lambda spec: bool(spec.roles) and spec.replicas != 1,
    WrongSpec.TOO_MANY_REPLICAS: lambda spec: _most(spec) > MOST_REPLICAS,
    WrongSpec.KEPT_GANG: lambda spec: spec.is_gang and spec.checkpoint_mode in KEPT,
    WrongSpec.DUPLICATE_ROLE: lambda spec: _duplicate(spec) is not None,
    WrongSpec.LEAVES_UNFINISHED: lambda spec: spec.success is not SuccessRule.CHIEF and _leaving(spec) is not None,
}
"""What is wrong with a job."""

ROLE: Mapping[WrongRole, Callable[[Role], bool]] = {
    WrongRole.MIN_ABOVE_MAX: lambda role: role.fewest > role.most,
    WrongRole.REPLICAS_OUTSIDE: lambda role: not role.fewest <= role.replicas <= role.most,
    WrongRole.SIZE_OUTSIDE: lambda role: _outside(role) is not None,
    WrongRole.SIZE_MISSING: lambda role: bool(role.sizes) and role.replicas not in role.sizes,
    WrongRole.GPUS_AND_SHARE: lambda role: bool(role.requests.gpus and role.requests.gpu_m),
    WrongRole.SHARE_TOO_LARGE: lambda role: role.requests.gpu_m >= WHOLE_GPU_M,
    WrongRole.ASKS_FOR_NOTHING: lambda role: (
        role.requests.cpu_m < LEAST_CPU_M and not (role.requests.all_gpus_m or role.requests.extended)
    ),
    WrongRole.EXTENDED_AMOUNT: lambda role: not _are_amounts(role.requests),
}


def what_is_wrong(spec: JobSpec) -> Iterator[str]:
    """One sentence for each part of a description that is wrong; none where it is right."""
    if wrong := first(SPEC, spec):
        yield wrong.about(most=_most(spec), limit=MOST_REPLICAS, duplicate=_duplicate(spec), leaving=_leaving(spec))
        return
    for role in spec.all_roles:
        if bad := first(ROLE, role):
            where = f"roles.{role.name}.requests" if spec.roles else "requests"
            yield bad.about(role=role, outside=_outside(role), where=where, largest=LARGEST, least=LEAST_CPU_M)


def _most(spec: JobSpec) -> int:
    return sum(max(role.most, role.replicas) for role in spec.roles) if spec.roles else spec.replicas


def _duplicate(spec: JobSpec) -> str | None:
    names = [role.name for role in spec.roles]
    return next((name for place, name in enumerate(names) if name in names[:place]), None)


def _leaving(spec: JobSpec) -> str | None:
    return next((role.name for role in spec.roles if role.may_leave), None)


def _outside(role: Role) -> int | None:
    return next((size for size in role.sizes if not role.fewest <= size <= role.most), None)


def _are_amounts(requests: Resources) -> bool:
    names = [name for name, _ in requests.extended]
    return len(names) == len(dict.fromkeys(names)) and all(1 <= amount <= LARGEST for _, amount in requests.extended)

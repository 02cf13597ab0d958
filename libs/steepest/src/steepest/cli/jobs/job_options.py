"""A job's description from the options of ``steepest submit`` and, where there is one, a file.

It owns how the two are put together, and what is refused before anything is asked of a pool.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from steepest.cli.jobs.sweep_options import rungs_of
from steepest.cli.options import variable
from steepest.errors import InputError
from steepest.events.cluster import Goal, JobSpec
from steepest.events.common import CheckpointMode, Resources
from steepest.events.growth import Reaction
from steepest.policies.submission import ARRAY_INDEX
from steepest.view.spec_rules import WHOLE_GPU_M, what_is_wrong

LONGEST_NUMBER = 9
"""Digits; what is longer is no number of replicas."""

END_CPU_M, END_MS = 100, 600_000
"""CPU and time limit of the command that runs at the end of a job."""

_WRITTEN = re.compile(r"\s*([^\s<>=]+)\s*([<>])\s*([^\s<>=]+)\s*")

LENGTH = re.compile(
    r"(?:^|[\s.])(?:--?)?(?:(?:max|num|n|total|train|training)[-_]?){0,3}(?P<unit>epochs|steps|iters|iterations)"
    r"[\s=](?P<number>[1-9]\d{0,8})(?=\s|$)"
)
"""How commands state the length of a training: ``--epochs 20``, ``--max_steps=1000``, ``trainer.max_epochs=10``."""


def spec_of(
    base: JobSpec | None = None,
    *,
    command: Sequence[str] = (),
    cpu: int | None = None,
    memory: int | None = None,
    gpus: int | None = None,
    checkpoint: str | None = None,
    env: Sequence[str] = (),
    workdir: Path | None = None,
    metrics_folder: Path | None = None,
    replicas: Sequence[str] = (),
    priority: str | None = None,
    deadline: int | None = None,
    time_limit: int | None = None,
    after: Sequence[str] = (),
    after_any: Sequence[str] = (),
    until: str | None = None,
    patience: int | None = None,
    on_hung: str | None = None,
    on_diverged: str | None = None,
    on_idle: str | None = None,
    rungs: str | None = None,
    **fields: Any,
) -> JobSpec:
    """The request of a file and the options given with it. Paths are made absolute: the job runs where its user meant.

    Args:
        base: What the file says; None: there is none.
        command: Program and arguments; empty: the file's.
        cpu: Millicores of each replica.
        memory: MiB of each replica.
        gpus: GPUs of each replica, in thousandths: whole ones, or a share of one.
        checkpoint: A checkpoint mode.
        env: Variables, each as K=V.
        workdir: Where it runs; None: where the file says, else here.
        metrics_folder: Where its losses are read from too.
        replicas: Numbers of replicas, each as N or ROLE=N.
        priority: A number, or the name of a class.
        deadline: Milliseconds in which it should end.
        time_limit: Milliseconds for which it may run.
        after: The jobs that it comes after, or patterns of their names.
        after_any: Likewise, however they end.
        until: A condition on its evaluation function that ends it.
        patience: Intervals without a better mean that end it.
        on_hung: What to do once it hangs.
        on_diverged: Once its loss diverges.
        on_idle: Once it uses nothing for long.
        rungs: Where it is compared with the others of its array.
        fields: Other fields of the description, as they are.

    Raises:
        InputError: The log format is unknown, the pattern is no expression, or the description is wrong.
        UsageError: A variable is none, a role is not there, or the folder is not.
    """
    spec = base or JobSpec(command=())
    asked = {"hung": on_hung, "diverged": on_diverged, "idle": on_idle}
    on = {kind: Reaction(reaction) for kind, reaction in asked.items() if reaction}
    folder = (workdir or Path(spec.working_dir or "")).absolute()
    changes: dict[str, Any] = {
        **fields,
        **_unsaid(lengths_of(command or spec.command), spec, fields),
        "working_dir": str(folder),
        "env": {**spec.env, **dict(map(variable, env))},
        **({"command": tuple(command)} if command else {}),
        **({"checkpoint_mode": CheckpointMode(checkpoint)} if checkpoint else {}),
        **({"metrics_folder": str(metrics_folder.absolute())} if metrics_folder else {}),
        **({"deadline_ms": deadline} if deadline else {}),
        **({"time_limit_ms": time_limit} if time_limit else {}),
        **({"rungs": rungs_of(rungs)} if rungs else {}),
        **urgency(priority),
        **({"reactions": msgspec.structs.replace(spec.reactions, **on)} if on else {}),
        **({"goal": goal} if (goal := goal_of(until, patience, fields.get("metric", spec.metric))) else {}),
    }
    for name in changes["env"]:
        _refuse_reserved(name)
    spec = _of_each_replica(msgspec.structs.replace(spec, **changes), replicas, cpu=cpu, memory=memory, gpus=gpus)
    if spec.log_format != "auto" or spec.pattern:
        from steepest.training_logs import LogReader

        LogReader(spec.log_format, pattern=spec.pattern or None)  # it knows the names, and says which are close
    if not spec.command:
        raise click.UsageError("Missing argument 'COMMAND...'")
    if not folder.is_dir():
        raise click.UsageError(f"the folder {folder} is not there; name another with --workdir")
    if wrong := next(what_is_wrong(spec.counted), None):
        raise InputError(wrong)
    if after and after_any:
        raise click.UsageError("--after and --after-any exclude each other")
    earlier = tuple(after) or tuple(after_any) or spec.after
    return msgspec.structs.replace(checked_spec(spec), after=earlier, after_any=bool(after_any) or spec.after_any)


def at_end(jobs: Sequence[tuple[str, JobSpec]], command: str) -> JobSpec:
    """A job that a shell runs once all of these are over: where they run, with little CPU and for a short time."""
    spec = jobs[0][1]
    return JobSpec(
        command=("/bin/sh", "-c", command),
        working_dir=spec.working_dir,
        image=spec.image,
        env={name: value for name, value in spec.env.items() if name != ARRAY_INDEX},
        requests=Resources(cpu_m=END_CPU_M),
        checkpoint_mode=CheckpointMode.NONE,
        queue=spec.queue,
        priority=spec.priority,
        priority_class=spec.priority_class,
        node_rule=spec.node_rule,
        after=tuple(name for name, _ in jobs),
        after_any=True,
        time_limit_ms=END_MS,
    )


def lengths_of(command: Sequence[str]) -> dict[str, int]:
    """The epochs or steps that a command states, each where it states one number of them."""
    found: dict[str, set[int]] = {}
    for one in LENGTH.finditer(" ".join(command)):
        found.setdefault("epochs" if one["unit"] == "epochs" else "steps", set()).add(int(one["number"]))
    return {unit: numbers.pop() for unit, numbers in found.items() if len(numbers) == 1}


def _unsaid(lengths: Mapping[str, int], spec: JobSpec, given: Mapping[str, Any]) -> Mapping[str, int]:
    """The lengths of a command, unless its user states any."""
    said = any(given.get(unit) or getattr(spec, unit) for unit in ("steps", "epochs"))
    return {} if said else lengths


def with_length(spec: JobSpec) -> JobSpec:
    """The description with the length that its command states, unless its user states any."""
    return msgspec.structs.replace(spec, **_unsaid(lengths_of(spec.command), spec, {}))


def with_cpu(spec: JobSpec, cpu_m: int) -> JobSpec:
    """The description with another request of each replica, where it names no roles."""
    return msgspec.structs.replace(spec, requests=msgspec.structs.replace(spec.requests, cpu_m=cpu_m))


def urgency(priority: str | None) -> dict[str, Any]:
    """A number is a priority; anything else may be the name of a class, which the pool's parameters know."""
    if priority is None:
        return {}
    try:
        return {"priority": int(priority), "priority_class": ""}
    except ValueError:
        return {"priority": 0, "priority_class": priority}


def _of_each_replica(
    spec: JobSpec, replicas: Sequence[str], *, cpu: int | None, memory: int | None, gpus: int | None
) -> JobSpec:
    """The description with other numbers of replicas, and other requests where it has one role."""
    asked = {name: value for name, value in (("cpu_m", cpu), ("memory_mib", memory)) if value is not None}
    if gpus is not None:
        if gpus > WHOLE_GPU_M and gpus % WHOLE_GPU_M:
            raise click.UsageError("--gpus: whole GPUs, or a share of one, like 2 or 0.5")
        asked |= {"gpus": gpus // WHOLE_GPU_M, "gpu_m": gpus % WHOLE_GPU_M}
    if asked and spec.roles:
        raise click.UsageError("--cpu, --memory, --gpus: the file names roles; write there what each of them requests")
    spec = msgspec.structs.replace(spec, requests=msgspec.structs.replace(spec.requests, **asked))
    for text in replicas:
        spec = _with_replicas(spec, text)
    return spec


def _with_replicas(spec: JobSpec, text: str) -> JobSpec:
    role, equals, number = text.rpartition("=")
    if not (number.isdecimal() and number.isascii() and len(number) <= LONGEST_NUMBER):
        raise click.UsageError(f"--replicas {text}: write it like 4 or worker=4")
    if not equals and len(spec.roles) > 1:
        names = ", ".join(role.name for role in spec.roles)
        raise click.UsageError(
            f"--replicas {text}: say which role, like {spec.roles[0].name}={number}; there are {names}"
        )
    if not spec.roles and role in {"", "worker"}:
        return msgspec.structs.replace(spec, replicas=int(number))
    if equals and role not in {each.name for each in spec.roles}:
        names = ", ".join(each.name for each in spec.all_roles)
        raise click.UsageError(f"--replicas {text}: there is no role {role}; the job has {names}")
    roles = tuple(
        msgspec.structs.replace(each, replicas=int(number)) if each.name == role or not equals else each
        for each in spec.roles
    )
    return msgspec.structs.replace(spec, roles=roles)


def checked_spec(spec: JobSpec) -> JobSpec:
    """A description whose fields a log can hold.

    Raises:
        UsageError: One is beyond its range.
    """
    try:
        return msgspec.convert(msgspec.to_builtins(spec), type(spec))
    except msgspec.ValidationError as error:
        what, _, where = str(error).rpartition(" - at `$.")
        raise click.UsageError(f"{where.rstrip('`').replace('_', ' ')}: {what.replace('`', '')}") from None


def _refuse_reserved(name: str) -> None:
    if not name or "=" in name or "\0" in name:
        raise click.UsageError(f"env {name}: this is no name of a variable; write it like SEED=7")
    if name.startswith("STEEPEST_"):
        raise click.UsageError(f"env {name}: names that begin with STEEPEST_ are the cluster's own")


def goal_of(until: str | None, patience: int | None, metric: str) -> Goal | None:
    """The goal of a job that is judged by ``metric``; None where neither option is given.

    Raises:
        UsageError: ``until`` is no condition, or one on another metric than that which the job is judged by.
    """
    if until is None:
        return None if patience is None else Goal(patience=patience)
    written = _WRITTEN.fullmatch(until)
    bound = _number(written[3]) if written else None
    if written is None or bound is None:
        raise click.UsageError(f"--until {until}: write it like 'loss<0.1' or 'accuracy>0.9'")
    if written[1] != metric:
        raise click.UsageError(f"--until {until}: the job is judged by {metric}; add --metric {written[1]}")
    if written[2] == "<":
        return Goal(below=bound, patience=patience)
    return Goal(above=bound, patience=patience)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None

"""A job described in a TOML or YAML file, with the fields of ``JobSpec`` and a name.

It owns what such a file may say and how an error names the field. What a description means is not its business.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from steepest.cli.jobs.job_text import JobTable, parse, read_text
from steepest.errors import InputError
from steepest.events.common import Name, Resources
from steepest.events.requests import JobSpec, Role

PATHS = ("working_dir", "metrics_folder")
"""Fields that are paths; in a file, relative ones begin at the file's folder."""

OPTED_IN = {
    "Job": "batch",
    "JobSet": "jobset.x-k8s.io",
    "TrainJob": "trainer.kubeflow.org",
    "PyTorchJob": "kubeflow.org",
}
"""The kinds of Kubernetes' objects that can be scheduled, with their API groups. The adapter, an extra, describes them."""

HINT = "docs/commands.md#a-job-in-a-file has an example"


class JobFile(msgspec.Struct, frozen=True):
    """The contents of a job's file.

    Attributes:
        name: The job's name; None: it says none.
        spec: The description; its command is empty where the file has none.
    """

    name: str | None
    spec: JobSpec


def read_job_file(path: Path) -> JobFile:
    """Read a job's description.

    Raises:
        InputError: The file cannot be read, or a field is wrong or unknown; the message names both, and where the format
            says it, the line.
    """
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: {why}", hint=f"name a TOML or YAML file; {HINT}") from error
    return job_of(text, str(path), path.absolute().parent)


def job_of(text: str, source: str, folder: Path) -> JobFile:
    """The description that a text holds.

    Args:
        text: TOML, or YAML if the source's name ends with ``.yaml`` or ``.yml``.
        source: Where it comes from, for errors.
        folder: Where relative paths begin.

    Raises:
        InputError: As :func:`read_job_file`.
    """
    try:
        table = parse(text, source)
    except ValueError as error:
        raise InputError(f"{source}: {error}", hint=HINT) from error
    content = table.content
    _refuse_objects(content, source)
    name = content.pop("name", None)
    _refuse_unknown(table, source)
    _name_extended(content)
    if isinstance(content.get("priority"), str) and "priority_class" not in content:
        content["priority_class"] = content.pop("priority")
    if "priority" in content and "priority_class" in content:
        where = _at(table, source, "priority_class")
        raise InputError(f"{where}: it excludes priority", hint="leave one of them out")
    try:
        job = JobFile(
            None if name is None else _converted(name, Name, ".name"), _converted({"command": (), **content}, JobSpec)
        )
    except msgspec.ValidationError as error:
        what, _, where = str(error).rpartition(" - at `$")
        field = where.strip("`.") or "its content"
        wrong = (what or str(error)).replace("`", "")
        raise InputError(f"{_at(table, source, field)}: {wrong}", hint=HINT) from error
    given = {field: str(folder / getattr(job.spec, field)) for field in PATHS if field in content}
    return JobFile(job.name, msgspec.structs.replace(job.spec, **given))


def _converted(value: object, kind: Any, field: str = "") -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{error} - at `${field}`" if field else str(error)) from error


def _at(table: JobTable, source: str, field: str) -> str:
    """Where a field is, for an error: the file, the line if it is known, and the field."""
    line = table.line_of(field)
    return f"{source}: {field}" if line is None else f"{source}: line {line}: {field}"


def _refuse_unknown(table: JobTable, source: str) -> None:
    """Refuse fields that nothing has; ``JobSpec`` itself passes over them, because a log may come from a later version."""
    roles = table.content.get("roles")
    places = {f"roles[{place}].": role for place, role in enumerate(roles if isinstance(roles, list) else ())}
    _refuse_others(table, table.content, ("name", *JobSpec.__struct_fields__), source, "")
    for where, role in places.items():
        _refuse_others(table, role, Role.__struct_fields__, source, where)
    for where, holder in {"": table.content, **places}.items():
        requests = holder.get("requests") if isinstance(holder, dict) else None
        _refuse_others(table, requests, Resources.__struct_fields__, source, f"{where}requests.")


def _refuse_objects(content: dict[str, Any], source: str) -> None:
    """Refuse an object of Kubernetes, which a cluster takes and a pool does not."""
    if "apiVersion" in content and "kind" in content:
        kind, api = (str(content[name])[:100] for name in ("kind", "apiVersion"))
        advice = f'kubectl apply -f {source}, with the label steepest.dev/schedule: "true"'
        if OPTED_IN.get(kind) != api.partition("/")[0]:
            advice = f"Steepest cannot schedule a {kind} of {api}, but {', '.join(OPTED_IN)}"
        raise InputError(
            f"{source}: this is an object of Kubernetes, and no job of Steepest",
            hint=f"{advice} (docs/kubernetes.md#jobs-that-users-make)",
        )


def _refuse_others(table: JobTable, given: object, known: Iterable[str], source: str, where: str) -> None:
    if not isinstance(given, dict):
        return
    names = list(known)
    for name in given:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
            raise InputError(f"{_at(table, source, f'{where}{name}')}: there is no such field", hint=hint)


def _name_extended(content: dict[str, Any]) -> None:
    """Tables of extended resources, as people write them, become pairs in the order of their names."""
    roles = content.get("roles")
    for table in (content, *(roles if isinstance(roles, list) else ())):
        requests = table.get("requests") if isinstance(table, dict) else None
        extended = requests.get("extended") if isinstance(requests, dict) else None
        if isinstance(requests, dict) and isinstance(extended, dict):
            requests["extended"] = sorted(extended.items())

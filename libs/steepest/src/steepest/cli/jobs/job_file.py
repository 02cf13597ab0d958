"""A job described in a TOML file, with the fields of ``JobSpec`` and a name.

It owns what such a file may say and how an error names the field. What a description means is not its business.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from steepest.errors import InputError
from steepest.events.common import Name, Resources
from steepest.events.requests import JobSpec, Role

PATHS = ("working_dir", "metrics_folder")
"""Fields that are paths; in a file, relative ones begin at the file's folder."""

HINT = "docs/commands.md#a-job-in-a-file has an example"


class JobFile(msgspec.Struct, frozen=True):
    """What a file says.

    Attributes:
        name: The job's name; None: it says none.
        spec: The description; its command is empty where the file has none.
    """

    name: str | None
    spec: JobSpec


def read_job_file(path: Path) -> JobFile:
    """Read a job's description.

    Raises:
        InputError: The file cannot be read, or a field is wrong or unknown; the message names both.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise InputError(f"{path}: {why}", hint=f"name a TOML file; {HINT}") from error
    return job_of(text, str(path), path.absolute().parent)


def job_of(text: str, source: str, folder: Path) -> JobFile:
    """The description that a text holds.

    Args:
        text: TOML.
        source: Where it comes from, for errors.
        folder: Where relative paths begin.

    Raises:
        InputError: As :func:`read_job_file`.
    """
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: {error}", hint=f"write TOML; {HINT}") from error
    name = content.pop("name", None)
    _refuse_unknown(content, source)
    _name_extended(content)
    if isinstance(content.get("priority"), str) and "priority_class" not in content:
        content["priority_class"] = content.pop("priority")
    if "priority" in content and "priority_class" in content:
        raise InputError(f"{source}: priority: it excludes priority_class", hint="leave one of them out")
    try:
        job = JobFile(
            None if name is None else _converted(name, Name, ".name"), _converted({"command": (), **content}, JobSpec)
        )
    except msgspec.ValidationError as error:
        what, _, where = str(error).rpartition(" - at `$")
        field = where.strip("`.") or "its content"
        raise InputError(f"{source}: {field}: {(what or str(error)).replace('`', '')}", hint=HINT) from error
    given = {field: str(folder / getattr(job.spec, field)) for field in PATHS if field in content}
    return JobFile(job.name, msgspec.structs.replace(job.spec, **given))


def _converted(value: object, kind: Any, field: str = "") -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise msgspec.ValidationError(f"{error} - at `${field}`" if field else str(error)) from error


def _refuse_unknown(content: Mapping[str, Any], source: str) -> None:
    """Refuse fields that nothing has; ``JobSpec`` itself passes over them, because a log may come from a later version."""
    _refuse_others(content, ("name", *JobSpec.__struct_fields__), source, "")
    _refuse_others(content.get("requests"), Resources.__struct_fields__, source, "requests.")
    roles = content.get("roles")
    for place, role in enumerate(roles if isinstance(roles, list) else ()):
        _refuse_others(role, Role.__struct_fields__, source, f"roles[{place}].")
        if isinstance(role, dict):
            _refuse_others(role.get("requests"), Resources.__struct_fields__, source, f"roles[{place}].requests.")


def _refuse_others(table: object, known: Iterable[str], source: str, where: str) -> None:
    if not isinstance(table, dict):
        return
    names = list(known)
    for name in table:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
            raise InputError(f"{source}: {where}{name}: there is no such field", hint=hint)


def _name_extended(content: dict[str, Any]) -> None:
    """Tables of extended resources, as people write them, become pairs in the order of their names."""
    roles = content.get("roles")
    for table in (content, *(roles if isinstance(roles, list) else ())):
        requests = table.get("requests") if isinstance(table, dict) else None
        extended = requests.get("extended") if isinstance(requests, dict) else None
        if isinstance(requests, dict) and isinstance(extended, dict):
            requests["extended"] = sorted(extended.items())

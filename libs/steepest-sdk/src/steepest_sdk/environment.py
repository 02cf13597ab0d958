"""Owns the environment variables of a supervised process; it must never know how they are used."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steepest_sdk import gang
from steepest_sdk.gang import Gang

_NUMBER = re.compile("[0-9]{1,9}")


@dataclass(frozen=True)
class Environment:
    """The identity of this process, and the folders that it shares with its supervisor.

    Attributes:
        job: The job's name.
        replica: The replica's index, from 0.
        incarnation: From 1; it increases with each placement.
        control: The control folder of this incarnation.
        checkpoints: The job's checkpoint folder, the same one for all incarnations.
        restore: The name of the checkpoint to restore; None: start at step 0.
        gang: Its place among the job's processes.
    """

    job: str
    replica: int
    incarnation: int
    control: Path
    checkpoints: Path
    restore: str | None
    gang: Gang


def read(variables: Mapping[str, str]) -> Environment | None:
    """Reads the variables of ``docs/control-folder.md``; None if this process is not supervised.

    Raises:
        ValueError: A variable is missing or invalid; the message names it.
    """
    if not variables.get("STEEPEST_CONTROL"):
        return None
    return Environment(
        job=_text(variables, "STEEPEST_JOB"),
        replica=_number(variables, "STEEPEST_REPLICA", least=0),
        incarnation=_number(variables, "STEEPEST_INCARNATION", least=1),
        control=Path(_text(variables, "STEEPEST_CONTROL")).absolute(),
        checkpoints=Path(_text(variables, "STEEPEST_CHECKPOINTS")).absolute(),
        restore=variables.get("STEEPEST_RESTORE") or None,
        gang=gang.read(variables),
    )


def _text(variables: Mapping[str, str], name: str) -> str:
    value = variables.get(name, "")
    if not value:
        raise ValueError(f"{name} is missing from the environment")
    return value


def _number(variables: Mapping[str, str], name: str, *, least: int) -> int:
    text = _text(variables, name)
    if not _NUMBER.fullmatch(text) or int(text) < least:
        raise ValueError(f"{name} is {text[:20]!r}; it must be a whole number from {least}, of at most 9 digits")
    return int(text)

"""Who is notified of which findings: the file of targets.

It owns the file's form and what a target asks for. It must never send anything.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec

from steepest.errors import InputError
from steepest.events.common import Name
from steepest.events.growth import FindingKind
from steepest.secret_files import read_secret
from steepest.view.progress import total_steps
from steepest.view.state import Job

PUSHED = (FindingKind.HUNG, FindingKind.DIVERGED, FindingKind.LOST, FindingKind.IDLE, FindingKind.GPU)
"""The kinds that are sent where a target names none: jobs that hold their places without effect."""


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One receiver of messages.

    Attributes:
        url: Where to, as Apprise writes it: ``mailto://…``, ``slack://…``, ``json://…``. It may hold a password.
        queues: Only jobs of these queues; empty: of all.
        users: Only jobs that these users submitted; empty: of all, also of unknown ones.
        jobs: Only jobs whose names match one of these patterns (``bert-*``); empty: all.
        kinds: The kinds of findings.
    """

    url: Annotated[str, msgspec.Meta(min_length=1)]
    queues: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    kinds: tuple[FindingKind, ...] = PUSHED

    def __repr__(self) -> str:
        return "Target()"

    def wants(self, job: Job, kind: FindingKind) -> bool:
        """Whether it is notified of such a finding of a job. A plateau without a known total is mostly wrong: never."""
        if kind not in self.kinds or (self.queues and job.spec.queue not in self.queues):
            return False
        if self.users and job.user not in self.users:
            return False
        if self.jobs and not any(fnmatchcase(job.name, pattern) for pattern in self.jobs):
            return False
        return kind is not FindingKind.PLATEAU or total_steps(job) is not None


def read_targets(path: Path) -> Mapping[str, Target]:
    """The targets that a file names, a TOML table each.

    Raises:
        InputError: It cannot be read, or says something else; or other users may read it.
    """
    try:
        return msgspec.convert(tomllib.loads(read_secret(path)), dict[Name, Target])
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(
            f"{path} names no targets of messages: {error}", hint="docs/watching.md has an example"
        ) from error

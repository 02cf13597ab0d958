"""What may be shown of a job: the values of its variables may be secrets, and so may what follows ``--api-key``.

It owns what is masked. Every sentence, row and event that people or programs see goes through here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from steepest.events.requests import JobSpec, JobSubmitted

MASK = "***"

_NAMED = (
    r"(?:(?<![a-z])(?:(?:api|access|auth|private|secret)[-_]?key|token|secret|passw(?:or)?d|passphrase|credentials?)"
    r"|(?<=[a-z])(?-i:ApiKey|Token|Secret|Password))(?![a-z])[\w.-]{0,40}"
)
_HINTS = ("key", "token", "secret", "passw", "passphrase", "credential", "bearer", "basic", "://")
"""Only a command with one of these can hold a secret; to look for them is fast."""

_SECRET = re.compile(_NAMED, re.IGNORECASE)

_VALUE = re.compile(
    rf"({_NAMED}[\"']?\s{{0,3}}[=:]\s{{0,3}}[\"']?|--?(?=\w)[\w.-]{{0,40}}?{_NAMED}\s{{1,3}}(?!-)[\"']?|\b(?:bearer|basic)\s{{1,3}})[^\s\"'&;,]+",
    re.IGNORECASE,
)
_OPTION = re.compile(r"--|-.?$")
_LOGIN = re.compile(r"(://[^/\s:@]{0,100}:)[^/\s@]+@")


def masked_command(command: Sequence[str]) -> tuple[str, ...]:
    """Words of a command without what looks like a secret: by the name of its option or variable, or as part of a URL."""
    text = " ".join(command).lower()
    if not any(hint in text for hint in _HINTS):
        return tuple(command)
    shown, follows = [], False
    for word in command:
        plain = _LOGIN.sub(rf"\1{MASK}@", _VALUE.sub(rf"\1{MASK}", word))
        shown.append(MASK if follows and not _OPTION.match(word) else plain)
        follows = word.startswith("-") and plain == word and _SECRET.search(word) is not None
    return tuple(shown)


def masked(event: Any) -> Any:
    """An event whose job's variables show their names alone, and its command no secrets."""
    if not isinstance(event, JobSubmitted):
        return event
    return msgspec.structs.replace(event, spec=_masked_spec(event.spec))


def _masked_spec(spec: JobSpec) -> JobSpec:
    env = dict.fromkeys(spec.env, MASK)
    return msgspec.structs.replace(spec, env=env, command=masked_command(spec.command))

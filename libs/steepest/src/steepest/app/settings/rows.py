"""The tree as rows: a setting's path, variable, type, default and meaning, for readers, help and documentation.

It owns how a setting is named in each source and how a value is written. It must never read a source.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from steepest.app.settings.tree import Settings

PREFIX = "STEEPEST_"
HIDDEN = "********"
"""Stands for a secret that is set."""

UP_ONLY = ("cluster", "parameters", "retention", "services", "client")
"""Sections that the command line alone reads."""

ONLY_READ_BY = {"mqtt": ("log-collector", "mqtt-bridge"), "agent": ("log-collector",), "gateway": ("gateway",)}
"""Sections that have a meaning for some services only."""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting.

    Attributes:
        path: Its key in a file: ``kafka.prefix`` is ``prefix`` in the table ``kafka``.
        variable: Its name in the environment.
        flag: Its option on the command line; empty where it has none.
        type: As the tree annotates it.
        check: Raises ValueError where a value that has the type is wrong all the same.
    """

    path: str
    variable: str
    flag: str
    type: Any
    default: Any
    meaning: str
    secret: bool
    is_list: bool
    examples: tuple[str, ...]
    check: Any = None

    @property
    def section(self) -> str:
        """The table that it is in; empty at the top."""
        return self.path.rpartition(".")[0]

    def of(self, settings: Settings) -> Any:
        """Its value in a tree."""
        value: Any = settings
        for name in self.path.split("."):
            value = getattr(value, name)
        return value

    def shown(self, value: Any) -> Any:
        """A value for people: secrets are not."""
        return HIDDEN if self.secret and value else value


@cache
def rows() -> tuple[Setting, ...]:
    """Every setting, in the order of the tree."""
    return tuple(_rows(Settings, ""))


def sections() -> dict[str, str]:
    """The subject of each section, by its name."""
    found = {field.name: _bare(field.type) for field in msgspec.structs.fields(Settings)}
    return {name: (kind.__doc__ or "").partition("\n")[0] for name, kind in found.items() if _is_section(kind)}


def rows_of(service: str) -> Sequence[Setting]:
    """The settings that one service reads."""
    return [
        row for row in rows() if row.section not in UP_ONLY and service in ONLY_READ_BY.get(row.section, (service,))
    ]


def text(value: Any) -> str:
    """A value as it is written in the environment."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def as_environment(settings: Settings) -> dict[str, str]:
    """The variables from which another process reads the same settings, where it inherits no others of ours."""
    return {row.variable: text(value) for row in rows() if (value := row.of(settings)) != row.default}


def type_in_words(kind: Any) -> str:
    """The allowed values, for people."""
    bare, metas = _bare(kind), _metas(kind)
    if examples := [example for meta in metas for example in meta.examples or ()]:
        return f"text like {' or '.join(examples)}"
    if get_origin(bare) in {Union, types.UnionType}:
        return " or ".join(type_in_words(one) for one in get_args(bare) if one is not type(None))
    if get_origin(bare) is Literal:
        return f"one of {', '.join(map(str, get_args(bare)))}"
    if get_origin(bare) is tuple:
        return f"a list of {type_in_words(get_args(bare)[0])}"
    if any(meta.pattern for meta in metas):
        return "a name: 1 to 63 lower-case letters, digits, dots, dashes and underscores"
    name = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}[bare]
    return name + "".join(_bounds(meta) for meta in metas)


def _bounds(meta: msgspec.Meta) -> str:
    words = {"ge": "from", "gt": "above", "le": "to"}
    return "".join(f" {word} {bound}" for at, word in words.items() if (bound := getattr(meta, at)) is not None)


def _rows(struct: Any, prefix: str) -> Iterator[Setting]:
    for field in msgspec.structs.fields(struct):
        kind, path = _bare(field.type), f"{prefix}{field.name}"
        if _is_section(kind):
            yield from _rows(kind, f"{path}.")
            continue
        metas = _all_metas(field.type)
        extra: dict[str, Any] = {}
        for meta in metas:
            extra |= meta.extra or {}
        yield Setting(
            path=path,
            variable=extra.get("variable", PREFIX + path.replace(".", "_").upper()),
            flag=extra.get("flag", ""),
            type=field.type,
            default=field.default,
            meaning=next(meta.description for meta in metas if meta.description),
            secret=extra.get("secret", False),
            is_list=get_origin(kind) is tuple,
            examples=tuple(example for meta in metas for example in meta.examples or ()),
            check=extra.get("check"),
        )


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _bare(kind: Any) -> Any:
    return _bare(get_args(kind)[0]) if get_origin(kind) is Annotated else kind


def _metas(kind: Any) -> list[msgspec.Meta]:
    """The annotations of a type itself."""
    if get_origin(kind) is not Annotated:
        return []
    inner, *metas = get_args(kind)
    return [*(meta for meta in metas if isinstance(meta, msgspec.Meta)), *_metas(inner)]


def _all_metas(kind: Any) -> list[msgspec.Meta]:
    """The annotations of a type and of the types that it is made of."""
    return [*_metas(kind), *(meta for part in get_args(_bare(kind)) for meta in _all_metas(part))]

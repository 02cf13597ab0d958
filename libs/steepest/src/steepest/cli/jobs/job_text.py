"""The text of a job file, TOML or YAML, as plain tables with the lines of their fields.

It owns how much such a file may hold. Which fields there are is not its business.
"""

from __future__ import annotations

import tomllib
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

LARGEST = 256 * 1024
"""Bytes; a description of a job is far below."""

DEEPEST = 20
"""Levels of a YAML file; a job's fields have five at most."""

YAML_SUFFIXES = (".yaml", ".yml")


class JobTable(msgspec.Struct, frozen=True):
    """The contents of a job's file.

    Attributes:
        lines: The line of each field, by its path as in ``roles[0].requests``; empty where the format does not say.
    """

    content: dict[str, Any]
    lines: Mapping[str, int]

    def line_of(self, field: str) -> int | None:
        """The line of a field, or of the closest one that it is part of; None: not known."""
        while field and field not in self.lines:
            field = field[: max(field.rfind("."), field.rfind("["), 0)]
        return self.lines.get(field)


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is too large, or no text.
    """
    with path.open("rb") as file:
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise ValueError(f"it has more than {LARGEST // 1024} KiB")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError("it is no text in UTF-8") from None


def parse(text: str, source: str) -> JobTable:
    """The tables of a text, in YAML if its source's name ends so, else in TOML.

    Raises:
        ValueError: It is neither; the message names the line.
    """
    try:
        if source.endswith(YAML_SUFFIXES):
            return _from_yaml(text)
        return JobTable(tomllib.loads(text), {})
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class _Loader(yaml.SafeLoader):
    """Plain values only: no alias (a few of them expand without bound), no tag, no key twice, no depth without bound."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            raise _refused("an alias (*) is not allowed here: repeat the value", event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise _refused(f"a tag ({event.tag}) is not allowed here", event.start_mark)
        if self.depth == DEEPEST:
            raise _refused(f"it is nested more than {DEEPEST} levels deep", event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        if isinstance(node, yaml.ScalarNode) and not _is_unicode(node.value):
            raise _refused("half a character (a surrogate) is no text", event.start_mark)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - as its base
        names: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                raise _refused("a field's name must be text: put it in quotes", key.start_mark)
            if key.value in names:
                raise _refused(f"{key.value} is there twice", key.start_mark)
            names.add(key.value)
        return super().construct_mapping(node, deep)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refused(why: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=why, problem_mark=mark)


def _from_yaml(text: str) -> JobTable:
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        content = {} if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise ValueError(f"line {mark.line + 1}: {error.problem}" if mark else str(error.problem)) from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    if not isinstance(content, dict):
        raise ValueError("line 1: it holds no table of fields")  # noqa: TRY004 - the text is wrong, and not a type
    lines: dict[str, int] = {}
    if node is not None:
        _add_lines(node, "", lines)
    return JobTable(content, lines)


def _add_lines(node: yaml.Node, path: str, lines: dict[str, int]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = f"{path}.{key.value}" if path else key.value
            lines[name] = key.start_mark.line + 1
            _add_lines(value, name, lines)
    elif isinstance(node, yaml.SequenceNode):
        for place, value in enumerate(node.value):
            name = f"{path}[{place}]"
            lines[name] = value.start_mark.line + 1
            _add_lines(value, name, lines)

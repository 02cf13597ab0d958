"""Any content of a job's file, TOML or YAML, is a description that a log can hold, or an error that names the file."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from steepest.cli.jobs.job_file import job_of
from steepest.errors import InputError
from steepest.events.common import Resources
from steepest.events.registry import encode
from steepest.events.requests import JobSpec, Role
from steepest.view.spec_rules import what_is_wrong

FIELDS = sorted({"name", *JobSpec.__struct_fields__, *Role.__struct_fields__, *Resources.__struct_fields__})

YAML_WORDS = [
    *(
        "name",
        "command",
        "roles",
        "steps",
        "env",
        ": ",
        ":",
        "- ",
        "? ",
        "\n",
        "\n  ",
        "&a ",
        "*a",
        "<<: ",
        "---\n",
        "...\n",
    ),
    *(
        "!!int ",
        "!x ",
        "!",
        "%YAML 1.1\n",
        "[",
        "]",
        "{",
        "}",
        ", ",
        "|\n ",
        ">-\n ",
        '"',
        "'",
        "\\ud800",
        "#",
        "\t",
        "\r",
    ),
    *("=", "~", "yes", "1_0", "0x", "1:30", ".inf", "1e3", "2001-01-01", "2001-12-14t21:59:43.10-05:00", "9999-99-99"),
]

values = st.recursive(
    st.integers(-(2**65), 2**65) | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(), inner, max_size=4),
    max_leaves=12,
)
tables = st.dictionaries(st.sampled_from(FIELDS), values, max_size=6)


def toml(value: object) -> str:
    """A value as inline TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def reads(text: str, source: str = "job.toml") -> None:
    """The file is read or refused; what is read can be on a log, and can be judged."""
    try:
        job = job_of(text, source, Path("/here"))
    except InputError as error:
        assert str(error).startswith(f"{source}: ")  # noqa: PT017 - either is right
        return
    assert msgspec.json.decode(encode(job.spec), type=JobSpec) == job.spec
    assert all(isinstance(wrong, str) for wrong in what_is_wrong(job.spec))


@given(tables)
@example({"roles": [{"name": "w", "requests": {"extended": {"a": 1}}}], "command": ["x"]})
@example({"roles": [3], "requests": {"extended": [1]}})
@example({"priority": "high", "priority_class": "low"})
def test_any_table_is_read_or_refused(table: dict[str, object]) -> None:
    """Fields of the right names with values of any kind."""
    reads(json.dumps(table), "job.yaml")
    reads("\n".join(f"{json.dumps(key)} = {toml(value)}" for key, value in table.items()))


@given(st.text())
@example("a = " + "[" * 10_000)
@example("steps = " + "9" * 5_000)
@example("steps: " + "9" * 5_000)
@example("steps: 0b_")
@example("steps: 0000-00-00")
@example("{}")
@example("")
def test_any_text_is_read_or_refused(text: str) -> None:
    """What is no TOML, or no YAML, is refused like any other."""
    reads(text)
    reads(text, "job.yaml")


@given(st.lists(st.sampled_from(YAML_WORDS), max_size=24).map("".join))
def test_any_words_of_yaml_are_read_or_refused(text: str) -> None:
    """Its own signs in any order."""
    reads(text, "job.yaml")

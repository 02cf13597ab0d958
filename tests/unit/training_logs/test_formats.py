r"""Logs of many frameworks and scripts with made-up numbers: what is read, and as what.

The cases are text in ``cases/``, a file for each framework or collection.
``#`` says what a case is about, ``>`` is a line of the log (with
``\t``, ``\r``, ``\b`` and ``\e`` written out), ``=`` a record that it must yield: step (``#`` before a counted one),
metric, value, split; then ``of`` the run's steps and ``in`` its epochs, where the log states them.
"""

from pathlib import Path

import pytest

from steepest.training_logs import LogReader, LossRecord
from steepest.training_logs.formats import Format, all_formats
from steepest.training_logs.reader import FORMER_FORMATS
from steepest.training_logs.stream import GENERAL

FOLDER = Path(__file__).parent / "cases"
_ESCAPES = (("\\t", "\t"), ("\\r", "\r"), ("\\b", "\b"), ("\\e", "\x1b"))


def load(path: Path) -> list[tuple[str, str, str, list[str]]]:
    """The cases of one file: format, what a case is about, text, records."""
    cases = []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        lines = block.splitlines()
        text = "".join(unescape(line[2:]) + "\n" for line in lines if line.startswith(">"))
        cases.append((path.stem, lines[0][2:], text, [line[2:] for line in lines if line.startswith("=")]))
    return cases


def unescape(line: str) -> str:
    """Control characters from their written form."""
    for written, character in _ESCAPES:
        line = line.replace(written, character)
    return line


KNOWN = [one.name for one in all_formats()]
CASES = [case for path in sorted(FOLDER.glob("*.txt")) for case in load(path)]


def read(text: str, **settings: str) -> list[LossRecord]:
    """All records of a text."""
    reader = LogReader(**settings)  # type: ignore[arg-type]
    return reader.feed(text.encode()) + reader.close()


def brief(records: list[LossRecord]) -> list[str]:
    """The notation of the cases."""
    return [
        f"{'#' * one.step_counted}{one.step} {one.metric} {one.value} {one.split}"
        + (f" of {one.total}" if one.total is not None else "")
        + (f" in {one.epochs}" if one.epochs is not None else "")
        for one in records
    ]


@pytest.mark.parametrize(
    ("name", "what", "text", "expected"), CASES, ids=[f"{name}: {what}" for name, what, *_ in CASES]
)
def test_a_log_is_read(name: str, what: str, text: str, expected: list[str]) -> None:  # noqa: ARG001
    """Its lines yield what they say, by the general reader or by the format that knows them."""
    records = read(text)

    assert brief(records) == expected
    assert {one.format for one in records} <= ({name} if name in KNOWN else {GENERAL})


@pytest.mark.parametrize("name", sorted({name for name, *_ in CASES} & {*KNOWN, *FORMER_FORMATS}))
def test_a_named_format_reads_the_same(name: str) -> None:
    """Naming the format changes nothing about what is read, also where the general reader has replaced it."""
    for text, expected in [(text, expected) for of, _, text, expected in CASES if of == name]:
        assert brief(read(text, format=name)) == expected


def test_every_format_has_a_case() -> None:
    """No format is without lines of its own here."""
    assert set(KNOWN) <= {name for name, *_ in CASES}


@pytest.mark.parametrize("one", all_formats(), ids=lambda one: one.name)
def test_the_shape_that_a_format_shows_is_read_by_it(one: Format) -> None:
    """What ``--help`` and the documentation show of a format is recognised as that format."""
    records = read(one.shape + "\n")

    assert records
    assert {record.format for record in records} == {one.name}

"""``docs/log-formats.md`` says what is so: it lists every format, and its example of a new one works."""

import re
from pathlib import Path

import pytest

from steepest.training_logs import LogReader, reader
from steepest.training_logs.formats import Format, all_formats

PAGE = (Path(__file__).parents[3] / "docs" / "log-formats.md").read_text(encoding="utf-8")


def test_every_format_has_its_row() -> None:
    """The table has a row for each format, and none for another."""
    assert set(re.findall(r"^\| `([\w-]+)` \|", PAGE, re.MULTILINE)) == {one.name for one in all_formats()}


def test_the_example_is_a_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's module, run as it stands, reads the line of its own shape as its case file says."""
    source = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    case = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)[0]
    module: dict[str, object] = {}
    exec(source, module)  # noqa: S102 - the documentation's own
    example = module["FORMAT"]
    assert isinstance(example, Format)

    monkeypatch.setattr(reader, "all_formats", lambda: (example,))
    log = LogReader()
    found = log.feed(f"{example.shape}\n".encode()) + log.close()

    assert [f"{one.step} {one.metric} {one.value} {one.split}" for one in found] == re.findall(
        r"^= (.*)$", case, re.MULTILINE
    )
    assert {one.format for one in found} == {"acme"}
    assert re.findall(r"^> (.*)$", case, re.MULTILINE) == [example.shape]

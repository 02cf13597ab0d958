"""``docs/log-formats.md`` says what is so: it lists every format, and its example of a new one works."""

import re
from pathlib import Path

from steepest.training_logs.format import Context, Format, LogLine
from steepest.training_logs.formats import all_formats

PAGE = (Path(__file__).parents[3] / "docs" / "log-formats.md").read_text(encoding="utf-8")


def test_every_format_has_its_row() -> None:
    """The table has a row for each format, and none for another."""
    assert set(re.findall(r"^\| `([\w.-]+)` \|", PAGE, re.MULTILINE)) == {one.name for one in all_formats()}


def test_the_example_is_a_format() -> None:
    """The page's module, run as it stands, reads the line of its own shape as its case file says."""
    source = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    case = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)[0]
    module: dict[str, object] = {}
    exec(source, module)  # noqa: S102 - the documentation's own
    example = module["FORMAT"]
    assert isinstance(example, Format)

    found = example.read(LogLine(example.shape.encode(), example.shape.encode(), b""), Context())

    assert found is not None
    assert [f"{one.at.step} {one.metric} {one.value} {one.split}" for one in found] == re.findall(
        r"^= (.*)$", case, re.MULTILINE
    )
    assert re.findall(r"^> (.*)$", case, re.MULTILINE) == [example.shape]

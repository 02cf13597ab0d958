"""Generated pages are what the code says now."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from steepest.app.installed_services import installed_services
from steepest.app.service_main import service_command
from steepest.app.settings.rows import rows, rows_of
from tools.docs.generate import generated, with_part
from tools.docs.markdown import ROOT

GENERATED = generated()


@pytest.mark.parametrize("page", GENERATED, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_generated_page_is_up_to_date(page: Path) -> None:
    """The committed text is the generated one; `make docs-generate` writes it."""
    assert page.read_text() == GENERATED[page], "run `make docs-generate`"


def test_every_metric_says_what_to_do() -> None:
    """A metric's text is a sentence with its meaning and one with what to do about it."""
    page = (ROOT / "docs" / "metrics.md").read_text()
    texts = [line.split(" | ")[-1] for line in page.splitlines() if line.startswith("| `steepest_")]

    assert len(texts) >= 15
    assert [text for text in texts if ". " not in text] == []


def test_every_setting_is_in_every_place_that_lists_it() -> None:
    """The page, the example file, and the help of each service that reads it."""
    page, example = (ROOT / "docs" / "settings.md").read_text(), (ROOT / "examples" / "steepest.toml").read_text()
    help_texts = {
        name: CliRunner().invoke(service_command(build), ["--help"]).output
        for name, build in installed_services().items()
    }

    for row in rows():
        assert f"| `{row.path}` | `{row.variable}` |" in page
        assert f"\n#{row.path.rpartition('.')[2]} = " in example
    assert len(help_texts) >= 10
    for name, text in help_texts.items():
        assert [row.variable for row in rows_of(name) if row.variable not in text] == []


def test_a_part_that_is_not_there_is_an_error() -> None:
    """A page that lost its marks is not left as it is in silence."""
    with pytest.raises(ValueError, match="no part layers"):
        with_part("# A page\n", "layers", "")

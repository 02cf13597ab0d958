"""The committed dashboards are those that the code makes, and each panel has an id and says what it shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.monitoring.dashboards import FOLDER, generated


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.name)
def test_a_dashboard_is_up_to_date(path: Path) -> None:
    """`make dashboards` writes them."""
    assert path.read_text() == generated()[path]


def test_there_is_no_other_dashboard() -> None:
    """One that the code does not make any more is deleted."""
    assert set(FOLDER.iterdir()) == set(generated())


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.name)
def test_panels_have_ids_and_say_what_they_show(path: Path) -> None:
    """Grafana finds panels by their ids; people read what each one is about."""
    panels = json.loads(path.read_text())["panels"]
    ids = [panel["id"] for panel in panels]

    assert len(set(ids)) == len(ids)
    assert [panel["title"] for panel in panels if panel["type"] != "row" and not panel["description"]] == []

"""The site holds every page, and everything that a page links."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tools.docs.markdown import ROOT, local_links
from tools.docs.site import settings, stage


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The staged site."""
    out = tmp_path_factory.mktemp("site")
    stage(out)
    return out / "pages"


def test_no_link_leads_out_of_the_site(site: Path) -> None:
    """A link to a source file leads to the page that shows it."""
    dead = [
        f"{page.relative_to(site)}: {link}"
        for page in site.rglob("*.md")
        if not page.name.endswith(".py.md")
        for link in local_links(page.read_text())
        if link and not (page.parent / link.partition("#")[0]).resolve().exists()
    ]

    assert dead == []


def test_a_source_file_is_shown(site: Path) -> None:
    """The page of a source file holds its text."""
    path = "libs/steepest/src/steepest/events/__init__.py"

    assert (ROOT / path).read_text() in (site / f"{path}.md").read_text()


def test_the_navigation_has_every_page(site: Path) -> None:
    """What is in ``docs`` is in the navigation, which follows the index."""
    navigation = str(tomllib.loads(settings())["project"]["nav"])
    pages = [page.relative_to(site).as_posix() for page in (site / "docs").rglob("*.md")]

    assert pages
    assert [page for page in pages if f"'{page}'" not in navigation] == []

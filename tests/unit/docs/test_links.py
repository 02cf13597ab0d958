"""Every target that a page of the project refers to exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from steepest.invariants import ALL
from tools.docs.markdown import ROOT, anchors, links, local_links, pages, prose, spans

LIBRARY = ROOT / "libs" / "steepest" / "src" / "steepest"
LAB = ROOT / "libs" / "steepest-lab" / "src"
BASES = (ROOT, LIBRARY, LAB, LAB / "steepest_lab")
PAGES = [str(page.relative_to(ROOT)) for page in pages() if not page.is_relative_to(ROOT / "tests" / "data")]
CODE_LINK = re.compile(r"\[`([\w.]+)`\]\(([^()\s]+\.py)\)")
"""A link from a name of the code to the file that has it."""

EXAMPLES = {"cluster/label", "tests/unit/training_logs/cases/acme.txt"}
"""Paths of a state folder, and of files that a reader is to write."""

TREES = ("libs", "services", "tests", "tools", "benchmarks", "docs", "deploy", "examples", "requirements", ".ci")


def broken(page: Path, link: str) -> str | None:
    """What is wrong with a local link of a page; None where nothing is."""
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_relative_to(ROOT):
        return f"{link}: leads out of the repository"
    if not target.exists():
        return f"{link}: no such file"
    if anchor and (target.suffix != ".md" or anchor not in anchors(target.read_text())):
        return f"{link}: no such heading"
    return None


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    """A link names a file of the repository and, behind ``#``, a heading of it."""
    page = ROOT / name

    assert [fault for link in local_links(page.read_text()) if (fault := broken(page, link))] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_path_in_a_code_span_is_there(name: str) -> None:
    """``tests/unit/x.py::test_y``, ``libs/…``, ``view/``: a path from the root or from the library exists, a test too."""
    missing = [span for span in spans((ROOT / name).read_text()) if is_path(span) and not found(span)]

    assert missing == []


@pytest.mark.parametrize("name", PAGES)
def test_every_name_that_leads_to_code_is_there(name: str) -> None:
    """[`Class.method`](file.py): the file has the class and the method, or is the module of that name."""
    page = ROOT / name
    missing = [
        f"{named} in {link}"
        for named, link in CODE_LINK.findall(page.read_text())
        if not defines((page.parent / link).resolve(), named)
    ]

    assert missing == []


def defines(file: Path, named: str) -> bool:
    """Whether a file defines every part of a dotted name, or is itself what the name says."""
    if named in {file.name, file.stem, file.parent.name} or not file.exists():
        return True
    text = file.read_text()
    return all(
        re.search(rf"^\s*((async )?def|class) {part}\b|^{part}\b.* = ", text, re.MULTILINE) for part in named.split(".")
    )


def is_path(span: str) -> bool:
    """Whether a code span names a file or folder of the repository; capitals stand for a name of the reader's."""
    if not re.fullmatch(r"[\w.-]+/[\w./-]*(::\w+)?", span) or re.search(r"\b[A-Z]{4,}\b", span) or span in EXAMPLES:
        return False
    top = span.partition("/")[0]
    return top in TREES or any((base / top).is_dir() for base in BASES[1:3])


def found(span: str) -> bool:
    """Whether it is there, from the root of the repository or of a package."""
    path, _, test = span.partition("::")
    file = next((base / path for base in BASES if (base / path).exists()), None)
    return file is not None and (not test or f"def {test}(" in file.read_text())


DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
CONTRACTS = [
    contract["name"]
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
]


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_every_decision_names_the_check_that_holds_it(page: Path) -> None:
    """*Held by* names tests or invariants, and contracts in quotes: what fails when the decision is broken."""
    _, heading, held = prose(page.read_text()).partition("**Held by**")
    named = list(spans(held))
    invariants = {checker.name for checker in ALL}

    assert heading, "says no **Held by**"
    assert "**Violated when**" in page.read_text()
    assert any(is_path(span) or span in invariants for span in named)
    assert set(re.findall(r'"([^"]+)"', " ".join(held.split()))) <= set(CONTRACTS)


def test_every_contract_that_a_page_names_is_there() -> None:
    """A contract is named in quotes, as `pyproject.toml` names it."""
    named = {
        found
        for page in pages()
        for found in re.findall(r'contracts? "([^"]+)"', " ".join(prose(page.read_text()).split()))
    }

    assert named
    assert named - set(CONTRACTS) == set()


def test_every_page_is_reached_from_the_index() -> None:
    """``docs/index.md`` links every page of ``docs``, so that there is one entrance."""
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in links(index.read_text())}
    inside = {page for page in pages() if page.is_relative_to(index.parent)} - {index}

    assert sorted(str(page.relative_to(ROOT)) for page in inside - linked) == []


def test_the_readers_find_what_they_look_for() -> None:
    """A link, an anchor and a path that are not there are found to be so."""
    page = ROOT / "docs" / "commands.md"

    assert list(links("[a](b.md#c) ![d](e.svg) `[f](g)`\n```\n[h](i)\n```\n")) == ["b.md#c", "e.svg"]
    assert anchors("# A `b` – c\n## Same\n## Same\n") == {"a-b--c", "same", "same-1"}
    assert broken(page, "nothing.md")
    assert broken(page, "#nothing")
    assert broken(page, "../../elsewhere.md")
    assert not broken(page, "#output-and-exit-status")
    assert is_path("tests/unit/test_none.py")
    assert not found("tests/unit/test_none.py")
    assert not found("tests/unit/test_tidy.py::test_none")
    assert defines(LIBRARY / "errors.py", "SteepestError")
    assert not defines(LIBRARY / "errors.py", "SteepestError.nothing")

"""The glossary has every word that the architecture page uses and does not explain."""

from __future__ import annotations

import re

from steepest.events.registry import TOPICS
from steepest.invariants import ALL
from tools.docs.markdown import ROOT, bold, spans

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
TERMS = {
    term.strip()
    for line in GLOSSARY.splitlines()
    if line.startswith("| ") and not line.startswith("| term")
    for term in line.split("|")[1].split(",")
}


def known(term: str) -> bool:
    """Whether the glossary has a term, in its singular or plural, or says what this name in code is."""
    return term in TERMS or term.removesuffix("s") in TERMS or f"`{term}`" in GLOSSARY


def test_every_bold_term_is_in_the_glossary() -> None:
    """A word in bold is a term; a bold sentence, which ends with a full stop, is a principle."""
    unknown = [term for term in bold(ARCHITECTURE) if not term.endswith(".") and not known(term)]

    assert unknown == []


def test_every_word_in_code_is_explained_or_names_something() -> None:
    """A code span is a term of the glossary, an event, a topic, an invariant, a path, a command, or code of the library."""
    named = {event.__name__ for topic in TOPICS.values() for event in topic.types} | set(TOPICS)
    named |= {checker.name for checker in ALL} | {"snapshots"}
    unknown = [
        span
        for span in spans(ARCHITECTURE)
        if not known(span)
        and span not in named
        and not re.search(r"[/.()_ ]|^--", span)
        and f"[`{span}`](" not in ARCHITECTURE
    ]

    assert unknown == []


def test_terms_are_sorted_into_tables_once() -> None:
    """No term stands in the glossary twice."""
    rows = [line.split("|")[1].strip() for line in GLOSSARY.splitlines() if line.startswith("| ")]
    repeated = {row for row in rows if rows.count(row) > 1} - {"term"}

    assert repeated == set()

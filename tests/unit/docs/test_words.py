"""Pages and code are written in plain technical English."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tools.docs.markdown import ROOT, pages, prose, sentences

ARCHAIC = {
    "anew": "again",
    "aside": "separately, in addition",
    "at once": "immediately, at the same time",
    "by and by": "later, gradually",
    "in vain": "without effect",
    "lots": "many; random",
    "thereby": "so",
    "to be had": "available",
    "told": "reported, asked, configured",
    "whoever": "anyone who, the process that",
}
"""Words that slow a reader down, and what to write instead."""

IN_CODE = {
    **ARCHAIC,
    "is to be": "must be, will be, or the verb in the imperative",
    "nobody": "no one, or what is missing: no process, no reader",
    "whatever": "any, or what it does not depend on",
}
"""Likewise in docstrings, comments, messages and names, where a sentence has less context."""

TRANSLATED = {
    r"\bin the mean\b": "on average",
    r"\bso many\b": "that many, as many, the number of",
    r"\b(is|are|was|were) taken (to be|for)\b": "counts as, is estimated at",
    r"\b(comes? to|coming to|came to)\b": "reaches, is, amounts to",
    r"^Not there\b": "… is not simulated, not implemented",
    r"\bto spare\b": "remaining",
    r"\bbut for\b": "except",
    r"\bbeside\b": "compared with, next to",
    r"\b(is|are) so[.,;]": "what is true, in a word",
    r"\bstands? (at|in|on|under|before|between)\b": "is",
    r"\bto and fro\b": "back and forth",
    r"^(It|They) as\b": "the noun",
    r"^What\b.*[^?]$(?<=\.)": "the noun, as the subject",
}
"""Phrases that are translated word by word, and what English says instead."""

MOST_WORDS = 35
"""In a sentence, or in what a colon or a semicolon leaves of it."""

CODE_TO_BE_REWRITTEN = (
    "libs/steepest/src/steepest/policies/steepest/",
    "libs/steepest/src/steepest/policies/watch/",
    "libs/steepest/src/steepest/training_logs/",
)
"""Packages whose docstrings the rule about phrases does not hold yet."""

TERMS = {
    "log/files/atomic_write.py": (".aside",),  # part of a file name that earlier versions wrote
    "cluster/docker/mounts.py": ("``nobody``", "NOBODY"),  # a user of the operating system
}
"""Texts of the library that hold a banned word as a name."""


def _banned(words: dict[str, str]) -> re.Pattern[str]:
    return re.compile(rf"\b({'|'.join(words)})\b".replace(" ", r"\s+"), re.IGNORECASE)


def _written(file: Path) -> str:
    """A file's text without its terms."""
    text = file.read_text()
    for place, names in TERMS.items():
        for name in names if file.as_posix().endswith(place) else ():
            assert name in text, f"{place} no longer holds {name}: remove it from TERMS"
            text = text.replace(name, "")
    return text


def test_no_page_uses_an_archaic_word() -> None:
    """Each banned word has a plain one."""
    banned = _banned(ARCHAIC)
    found = [
        f"{page.relative_to(ROOT)}: {match[0]}: write {ARCHAIC[' '.join(match[0].lower().split())]}"
        for page in pages()
        for match in banned.finditer(prose(page.read_text()))
    ]

    assert found == []


def _rewritten() -> Iterator[tuple[str, str]]:
    """The sentences of the pages that hold all rules, each with its page."""
    for page in pages():
        name = page.relative_to(ROOT).as_posix()
        if not name.startswith("tests/data/"):
            yield from ((name, sentence) for sentence in sentences(page.read_text()))


def test_no_page_is_translated_word_by_word() -> None:
    """Each phrase has a plain one."""
    found = [
        f"{name}: {match[0]}: write {instead}: {sentence}"
        for name, sentence in _rewritten()
        for phrase, instead in TRANSLATED.items()
        if (match := re.search(phrase, sentence, re.IGNORECASE))
    ]

    assert found == []


def test_no_sentence_is_too_long() -> None:
    """A sentence is understood on first reading."""
    found = [f"{name}: {sentence}" for name, sentence in _rewritten() if len(sentence.split()) > MOST_WORDS]

    assert found == []


def _docstrings(file: Path) -> Iterator[str]:
    """The paragraphs of each docstring, of attributes too, each as one line."""
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield from (" ".join(one.split()) for one in re.split(r"\n\s*\n|\n(?=\s+\w+: )", text))


def test_no_docstring_is_translated_word_by_word() -> None:
    """Each phrase has a plain one, in docstrings too."""
    found = [
        f"{name}: {match[0]}: write {instead}: {paragraph}"
        for top in ("libs", "services")
        for file in sorted((ROOT / top).rglob("*.py"))
        if not (name := file.relative_to(ROOT).as_posix()).startswith(CODE_TO_BE_REWRITTEN)
        for paragraph in _docstrings(file)
        for phrase, instead in TRANSLATED.items()
        if not phrase.startswith("^What") and (match := re.search(phrase, paragraph, re.IGNORECASE))
    ]

    assert found == []


def test_packages_to_be_rewritten_are_there() -> None:
    """A package that was removed leaves the list."""
    listed = sorted(CODE_TO_BE_REWRITTEN)
    assert [name for name in listed if not (ROOT / name).exists()] == []


def test_no_code_uses_an_archaic_word() -> None:
    """Docstrings, comments, messages and names of the libraries and services use the plain word too."""
    banned = _banned(IN_CODE)
    found = [
        f"{file.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}: "
        f"write {IN_CODE[' '.join(match[0].lower().split())]}"
        for top in ("libs", "services")
        for file in sorted((ROOT / top).rglob("*.py"))
        for text in [_written(file)]
        for match in banned.finditer(text)
    ]

    assert found == []

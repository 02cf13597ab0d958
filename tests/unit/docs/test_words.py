"""Pages and code are written in plain technical English."""

from __future__ import annotations

import re
from pathlib import Path

from tools.docs.markdown import ROOT, pages, prose

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

"""Pages are written in plain technical English."""

from __future__ import annotations

import re

from tools.docs.markdown import ROOT, pages, prose

ARCHAIC = {
    "anew": "again",
    "aside": "separately, in addition",
    "at once": "immediately, at the same time",
    "in vain": "without effect",
    "lots": "many; random",
    "thereby": "so",
    "told": "reported, asked, configured",
    "whoever": "anyone who, the process that",
}
"""Words that slow a reader down, and what to write instead."""


def test_no_page_uses_an_archaic_word() -> None:
    """Each banned word has a plain one."""
    banned = re.compile(rf"\b({'|'.join(ARCHAIC)})\b", re.IGNORECASE)
    found = [
        f"{page.relative_to(ROOT)}: {match[0]}: write {ARCHAIC[match[0].lower()]}"
        for page in pages()
        for match in banned.finditer(prose(page.read_text()))
    ]

    assert found == []

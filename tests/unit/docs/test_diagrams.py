"""Diagrams say to Mermaid what they say to a reader."""

from __future__ import annotations

from tools.docs.markdown import blocks, pages


def test_no_label_of_a_state_diagram_ends_early() -> None:
    """Mermaid ends a label at a semicolon, and takes the words behind it for states."""
    drawn = [block.text for page in pages() for block in blocks(page.read_text()) if block.language == "mermaid"]

    assert drawn
    assert [line for text in drawn if "stateDiagram" in text for line in text.splitlines() if ";" in line] == []

"""The live page's files: few bytes, and nothing from elsewhere."""

from __future__ import annotations

import gzip
import re
from importlib import resources
from pathlib import Path

PAGE = Path(str(resources.files("steepest.gateway"))) / "page"
MOST_BYTES = 120_000


def gzipped_sizes() -> dict[str, int]:
    """The bytes of each script and style as a browser that takes gzip gets them."""
    return {
        file.name: len(gzip.compress(file.read_bytes())) for file in PAGE.rglob("*") if file.suffix in {".js", ".css"}
    }


def test_they_are_small() -> None:
    """Scripts and styles together; the page has no fonts."""
    assert sum(gzipped_sizes().values()) <= MOST_BYTES, gzipped_sizes()
    assert not [file for file in PAGE.rglob("*") if file.suffix in {".woff", ".woff2", ".ttf", ".otf"}]


def test_every_script_is_imported_and_every_import_is_there() -> None:
    """A module that no other one imports is dead, and one that is not there stops the page."""
    modules = {file.name: file.read_text() for file in (PAGE / "js").iterdir()}
    imported = {name for text in modules.values() for name in re.findall(r'from "\./([\w.]+)"', text)}
    assert imported | {"app.js"} == set(modules)


def test_every_imported_name_is_exported_and_used() -> None:
    """What a module takes from another one exists there, and the module needs it."""
    modules = {file.name: file.read_text() for file in (PAGE / "js").iterdir()}
    for name, text in modules.items():
        for names, source in re.findall(r'import \{([^}]*)\} from "\./([\w.]+)"', text):
            for one in filter(None, (part.strip() for part in names.split(","))):
                exported = rf"export (?:async )?function {one}\b|export (?:\{{|const )[^\n]*\b{one}\b"
                assert re.search(exported, modules[source]), f"{source} does not export {one}, which {name} imports"
                assert len(re.findall(rf"\b{one}\b", text)) > 1, f"{name} imports {one} and does not use it"

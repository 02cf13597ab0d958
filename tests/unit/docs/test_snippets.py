"""Python that a page shows can be read by Python, and imports what is there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tools.docs.markdown import ROOT, blocks, pages

SOURCES = [*(ROOT / "libs").glob("*/src"), ROOT / "services"]
PAGES = [
    str(page.relative_to(ROOT))
    for page in pages()
    if any(block.language == "python" for block in blocks(page.read_text()))
]


def imports(script: str) -> Iterator[tuple[str, str]]:
    """What a script imports from packages of ours: module and name."""
    for node in ast.walk(ast.parse(script)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("steepest"):
            yield from ((str(node.module), name.name) for name in node.names)


def is_there(module: str, name: str) -> bool:
    """Whether a module defines a name. Nothing is imported: some modules need a framework."""
    path = module.replace(".", "/")
    files = [
        base / tail for base in SOURCES for tail in (f"{path}.py", f"{path}/__init__.py") if (base / tail).exists()
    ]
    if any((file.parent / f"{name}.py").exists() for file in files if file.name == "__init__.py"):
        return True
    return any(name in _names(ast.parse(file.read_text())) for file in files)


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.ImportFrom(names=names):
                yield from (one.asname or one.name for one in names)


@pytest.mark.parametrize("name", PAGES)
def test_a_pages_python_imports_what_is_there(name: str) -> None:
    """Each snippet parses, and each name that it imports from Steepest is defined where it says."""
    scripts = [block.text for block in blocks((ROOT / name).read_text()) if block.language == "python"]

    assert [found for script in scripts for found in imports(script) if not is_there(*found)] == []


def test_a_name_that_is_not_there_is_found() -> None:
    """The look-up distinguishes a name that exists from one that does not."""
    assert is_there("steepest.errors", "SteepestError")
    assert is_there("steepest_sdk", "start")
    assert not is_there("steepest.errors", "Nothing")
    assert not is_there("steepest.nothing", "SteepestError")

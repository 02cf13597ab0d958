"""No file of the repository names a package registry or a mirror: a machine knows where its packages come from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = (
    "benchmarks",
    "charts",
    "deploy",
    "docs",
    "examples",
    "libs",
    "requirements",
    "services",
    "tests",
    "tools",
    ".ci",
)
HOSTS = re.compile(
    r"\b(deb|archive|security|snapshot|ftp|ports)\.(debian\.org|ubuntu\.com)\b"
    r"|\b(pypi\.org/simple|files\.pythonhosted\.org|registry\.(npmjs\.org|yarnpkg\.com|k8s\.io|hub\.docker\.com))\b"
    r"|\b(proxy|sum)\.golang\.org\b|\brepo1?\.maven(\.apache)?\.org\b|\b(unpkg\.com|jsdelivr\.net)\b"
    r"|\b(quay|ghcr|gcr)\.io/|\bdocker\.io/(?!library/steepest)"
)
"""Registries and mirrors of the ordinary clients; ``docker.io/library/steepest…`` is how containerd names our images."""


def written(root: Path) -> Iterator[Path]:
    """The files that people write or tools generate, but for what is installed beside them, and this one."""
    for file in (*root.glob("*"), *(file for folder in FOLDERS for file in (root / folder).rglob("*"))):
        if file.is_file() and file != Path(__file__) and not {"node_modules", "__pycache__"} & set(file.parts):
            yield file


def test_no_file_names_a_registry() -> None:
    """Text of any kind, whatever it is for."""
    named = [
        f"{file.relative_to(ROOT)}: {found[0]}"
        for file in written(ROOT)
        for found in HOSTS.finditer(file.read_bytes().decode(errors="ignore"))
    ]
    assert named == []


@pytest.mark.parametrize(
    "line",
    [
        "MIRROR = 'http://deb.debian.org/debian'",
        "--index-url https://pypi.org/simple",
        '"resolved": "https://registry.npmjs.org/preact"',
        "GOPROXY=https://proxy.golang.org",
        "<url>https://repo.maven.apache.org/maven2</url>",
        "image: docker.io/library/redis",
        "FROM quay.io/minio/minio",
    ],
)
def test_the_rule_finds_them(line: str) -> None:
    """In settings, locks and images."""
    assert HOSTS.search(line)

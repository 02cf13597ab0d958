"""The images' packages come from where the machine's own packages come from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from steepest_lab.docker_engines.images import mirror

DEB822 = """\
Types: deb
URIs: http://one.example/debian-security/
Suites: {release}-security
Components: main

Types: deb
URIs: http://two.example/debian/
Suites: {release} {release}-updates
Components: main
"""
LINES = """\
deb http://three.example/tools {release} stable
deb [arch=amd64] http://four.example/debian {release} main contrib
"""


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of another machine's sources, which the real APT reads."""
    if shutil.which("apt-get") is None:
        pytest.skip("there is no APT on this machine, and none is needed")
    parts = tmp_path / "parts"
    parts.mkdir()
    settings = {"Etc::sourcelist": "/dev/null", "Etc::sourceparts": parts, "State::lists": tmp_path / "lists"}
    (tmp_path / "conf").write_text("".join(f'Dir::{name} "{path}";\n' for name, path in settings.items()))
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "conf"))
    return parts


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("debian.sources", DEB822, ["http://two.example/debian"]),
        ("debian.list", LINES, ["http://four.example/debian"]),
        ("other.list", LINES.replace("{release}", "another"), []),
    ],
    ids=["deb822", "lines", "another release"],
)
def test_the_mirror_is_the_machines_own(sources: Path, name: str, text: str, found: list[str]) -> None:
    """In either form of APT's files; sources of updates, of other programs or of another release are none."""
    (sources / name).write_text(text.format(release="bookworm"))
    assert mirror() == found


def test_a_machine_without_apt_names_no_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    """``debootstrap`` then takes the one that it knows."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert mirror() == []

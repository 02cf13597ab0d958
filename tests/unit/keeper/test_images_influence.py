"""A keeper's programs run with rights in a container of any image, which must not change what they do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from steepest.cluster.container_paths import HOME, called
from steepest.cluster.keepers import find_whole
from steepest.keeper.criu import Criu
from steepest.keeper.processes import CannotBeSaved

INSTALL = Path(__file__).parents[3] / "tools" / "criu" / "install.sh"
NAMES = {"ld.so.preload": "/no/such.so\n", "ld.so.cache": "no cache\n"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may show a program another root folder")
def test_what_an_image_says_to_loaders_reaches_no_keeper(tmp_path: Path) -> None:
    """In an image that names a library to load into all programs, the keeper's Python starts as in any other one."""
    if isinstance(home := find_whole(), str):
        pytest.skip(home)
    if (home / "criu").stat().st_mtime < INSTALL.stat().st_mtime:
        pytest.skip(f"{home} was made by an earlier {INSTALL.name}; get it again with: make criu")
    (tmp_path / "etc").mkdir()
    for name, content in NAMES.items():
        (tmp_path / "etc" / name).write_text(content)
    (tmp_path / HOME.removeprefix("/")).mkdir(parents=True)
    program = " ".join([*called("usr/bin/python3"), "-I", "-S", "-c", "'print(1)'"])
    show = f"mount --bind {home} {tmp_path}{HOME} && exec chroot {tmp_path} {program}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", show], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_no_configuration_of_an_image_reaches_criu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a default file of the image nor one that its variable names, which could let CRIU start a program."""
    monkeypatch.setenv("CRIU_CONFIG_FILE", "/of/the/image.conf")
    program, said = tmp_path / "criu", tmp_path / "said"
    program.write_text(f"#!/bin/sh\necho $* $CRIU_CONFIG_FILE > {said}\nexit 1\n")
    program.chmod(0o755)
    criu = Criu([str(program)], contained=True)
    for run in (lambda: criu.dump(1, tmp_path), lambda: criu.restore(tmp_path, tmp_path, {}, connected=False)):
        with pytest.raises(CannotBeSaved):
            run()
        words = said.read_text().split()
        assert "--no-default-config" in words
        assert "/of/the/image.conf" not in words

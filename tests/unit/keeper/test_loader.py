"""The loader of a keeper's programs, which runs as root in a container of any image."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from steepest.cluster.container_paths import HOME, called
from steepest.cluster.keepers import find_whole

NAMES = {"ld.so.preload": "/no/such.so\n", "ld.so.cache": "no cache\n"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may show a program another root folder")
def test_what_an_image_says_to_loaders_reaches_no_keeper(tmp_path: Path) -> None:
    """In an image that names a library to load into all programs, the keeper's Python starts as in any other one."""
    if isinstance(home := find_whole(), str):
        pytest.skip(home)
    (tmp_path / "etc").mkdir()
    for name, content in NAMES.items():
        (tmp_path / "etc" / name).write_text(content)
    (tmp_path / HOME.removeprefix("/")).mkdir(parents=True)
    program = " ".join([*called("usr/bin/python3"), "-I", "-S", "-c", "'print(1)'"])
    show = f"mount --bind {home} {tmp_path}{HOME} && exec chroot {tmp_path} {program}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", show], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")

"""Every target of the Makefile is run by CI or by ``make test-all``, which says what it covered."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

BY_HAND = {
    "help": "prints the others",
    "setup": "a part of dev",
    "test-all": "runs the others",
    "format": "writes to the checkout",
    "docs-generate": "writes to the checkout; `make lint` compares",
    "dashboards": "writes to the checkout; a test compares",
    "page-libraries": "writes to the checkout",
    "lock": "writes to the checkout",
    "clean": "removes what the others made",
    "kafka-start": "the tests start a broker by the same program",
    "kafka-stop": "the tests stop it by the same program",
    "kubernetes-link": "a part of test-link",
    "kubernetes-services": "the tests of the chart do the same",
}
"""Targets that no run calls, with the reason."""


def test_every_target_is_run() -> None:
    """One that nobody runs rots unseen: the run calls it, or the list above says why it does not."""
    targets = set(re.findall(r"^([a-z][a-z-]*):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "step " in line and " make " in line]
    run = {word for line in called for word in re.findall(r"[a-z-]+", line.split(" make ", 1)[1])}
    run |= {"criu", "mosquitto", "chromium", "prometheus", "storage", "links"}  # one step in a loop

    assert targets - run == set(BY_HAND)


@pytest.mark.parametrize("form", ["", "--all"])
def test_a_run_says_what_it_covered(form: str, tmp_path: Path) -> None:
    """CI ends at a step that fails; with ``--all`` the others run too. Both name it among the steps, and fail."""
    for name in (".ci/run", "bin/make", ".venv/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    for name in ("bin/make", ".venv/bin/python"):
        (tmp_path / name).write_text('#!/bin/sh\n[ "$1" != docs ]\n')
        (tmp_path / name).chmod(0o755)

    asked = ["bash", str(tmp_path / ".ci" / "run"), *form.split()]
    path = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(asked, env=path, capture_output=True, text=True, check=False)
    covered = [line.split(" s  ")[1] for line in done.stdout.splitlines() if re.match(" *[0-9]+ s  ", line)]

    begun = re.findall("^== ([^:]*):", done.stdout, re.MULTILINE)
    assert covered == [*(f"{step}  FAILED" if step == "docs" else step for step in begun), "in all"]
    assert ("benchmarks" in begun) == bool(form)
    assert done.returncode == 1

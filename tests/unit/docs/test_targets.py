"""Every target of the Makefile is run by CI or by ``make test-all``."""

from __future__ import annotations

import re
from pathlib import Path

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

"""The tests of this folder, and what they found as one JSON object on the last line: ``make test-prometheus``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest


class Findings:
    """A plugin in which the tests write their figures."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}


if __name__ == "__main__":
    findings = Findings()
    arguments = ["-q", "-p", "no:randomly", str(Path(__file__).parent), *sys.argv[1:]]
    status = pytest.main(arguments, plugins=[findings])
    print(json.dumps(findings.figures))  # noqa: T201 - what it is for
    sys.exit(status)

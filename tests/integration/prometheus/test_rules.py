"""The rules, by Prometheus' own tool: they are well-formed, and each alert is unit-tested and has a runbook."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from .faults import FAULTS
from .prometheus_server import RULES

pytestmark = pytest.mark.end_to_end
UNIT_TESTS = Path(__file__).with_name("rules_test.yml")
DOCS = RULES.parents[2] / "docs"


def alerts() -> dict[str, dict[str, Any]]:
    """Every alert by its name."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def promtool(*arguments: str, folder: Path) -> None:
    """Run promtool, which must be content."""
    done = subprocess.run(["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_accepts_and_tests_the_rules(tmp_path: Path) -> None:
    """`check rules` and `test rules`."""
    shutil.copy(RULES, tmp_path)
    shutil.copy(UNIT_TESTS, tmp_path)
    promtool("check", "rules", RULES.name, folder=tmp_path)
    promtool("test", "rules", UNIT_TESTS.name, folder=tmp_path)


def test_a_changed_rule_fails_its_unit_test(tmp_path: Path) -> None:
    """The unit tests can fail: an alert with another threshold does not pass them."""
    shutil.copy(UNIT_TESTS, tmp_path)
    (tmp_path / RULES.name).write_text(RULES.read_text().replace("> 5000", "> 7000"))
    with pytest.raises(AssertionError, match="SteepestLagging"):
        promtool("test", "rules", UNIT_TESTS.name, folder=tmp_path)


def test_every_alert_is_tested_explained_and_caused() -> None:
    """Each has a unit test in which it fires, a runbook with its name, and a fault; and there is no other runbook."""
    cases = yaml.safe_load(UNIT_TESTS.read_text())["tests"]
    fired = {one["alertname"] for case in cases for one in case.get("alert_rule_test", ()) if one.get("exp_alerts")}
    runbooks = {name: DOCS.parent / rule["annotations"]["runbook"] for name, rule in alerts().items()}

    assert fired == alerts().keys() == FAULTS.keys()
    assert set(runbooks.values()) == set((DOCS / "runbooks").glob("*.md"))
    assert [name for name, page in runbooks.items() if f"# {name}\n" not in page.read_text()] == []

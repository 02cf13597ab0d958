"""The dashboards against Grafana's own types, by TypeScript's compiler: no Grafana can be had here."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tools.docs.markdown import ROOT
from tools.monitoring.dashboards import generated

MODULES = ROOT / ".grafana" / "node_modules"
OPTIONS = ["--noEmit", "--strict", "--skipLibCheck", "--module", "esnext", "--moduleResolution", "bundler"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def complaints(folder: Path, dashboards: dict[str, Any]) -> str:
    """What the compiler says about dashboards by name; empty where each is one."""
    if not MODULES.exists() or shutil.which("node") is None:
        pytest.skip(f"there is no {MODULES}, or no node: run `make grafana-schema`")
    (folder / "node_modules").symlink_to(MODULES)
    for name, dashboard in dashboards.items():
        text = f"import {{ Dashboard }} from '@grafana/schema';\nexport const d: Dashboard = {json.dumps(dashboard)};\n"
        (folder / f"{name}.ts").write_text(text)
    files = [f"{name}.ts" for name in dashboards]
    compiler = ["node", str(MODULES / "typescript" / "bin" / "tsc"), *OPTIONS, "--target", "es2022", *files]
    return subprocess.run(compiler, cwd=folder, capture_output=True, text=True, check=False).stdout


def test_every_dashboard_is_one_and_a_wrong_one_is_not(tmp_path: Path) -> None:
    """A dashboard with a key that there is not, and with a value of the wrong type, is refused; a committed one is not."""
    committed = {path.stem: json.loads(path.read_text()) for path in generated()}
    unknown = {**committed["steepest-jobs"], "panles": []}
    mistyped = {**committed["steepest-jobs"], "graphTooltip": "sometimes"}
    said = complaints(tmp_path, {**committed, "unknown": unknown, "mistyped": mistyped})

    assert {line.partition("(")[0] for line in said.splitlines() if "error" in line} == {"unknown.ts", "mistyped.ts"}, (
        said
    )

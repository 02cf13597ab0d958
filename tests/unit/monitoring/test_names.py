"""The names under which Prometheus asks processes are those under which they answer."""

from __future__ import annotations

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[3]


def test_compose_s_prometheus_asks_under_names_that_are_configured() -> None:
    """Under another name a port for metrics answers with 421, and the process seems to be down."""
    asked = yaml.safe_load((ROOT / "deploy/compose/prometheus.yml").read_text())
    named = yaml.safe_load((ROOT / "compose.yaml").read_text())["x-steepest"]["environment"]["STEEPEST_METRICS_NAMES"]
    targets = asked["scrape_configs"][0]["static_configs"][0]["targets"]

    assert {target.partition(":")[0] for target in targets} == set(named.split(","))

"""Every metric is counted in."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry

from steepest import runtime
from steepest.runtime.monitoring.metric_defs import Metrics


def test_every_metric_is_counted_in() -> None:
    """Each metric is used somewhere in the runtime."""
    metrics = vars(Metrics(CollectorRegistry())).keys() - {"registry", "build"}
    used = "".join(file.read_text() for file in Path(runtime.__file__).parent.rglob("*.py"))

    assert metrics
    assert sorted(name for name in metrics if f"metrics.{name}.labels" not in used) == []

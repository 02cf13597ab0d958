"""Every metric of the bridge is collected and counted in."""

from __future__ import annotations

from pathlib import Path

from steepest.mqtt import metric_defs
from steepest.mqtt.metric_defs import MqttMetrics


def test_every_metric_is_collected_and_counted_in() -> None:
    """The code changes every metric, and a process's registry gets each of them."""
    metrics = vars(MqttMetrics())
    used = "".join(file.read_text() for file in Path(metric_defs.__file__).parent.glob("*.py"))

    assert sorted(name for name in metrics if f"_metrics.{name}." not in used) == []
    assert len(set(MqttMetrics().collectors())) == len(metrics)

"""Every metric of the bridge says what it means and what to do about it."""

from __future__ import annotations

import inspect
from pathlib import Path

from steepest.mqtt import metric_defs
from steepest.mqtt.metric_defs import MqttMetrics


def test_every_metric_is_explained_collected_and_counted_in() -> None:
    """Above each stands a comment of a sentence with its meaning and one with what to do; none stands still for ever."""
    lines = [line.strip() for line in inspect.getsource(metric_defs).splitlines()]
    metrics = vars(MqttMetrics())
    used = "".join(file.read_text() for file in Path(metric_defs.__file__).parent.glob("*.py"))

    for name in metrics:
        above = lines[next(at for at, line in enumerate(lines) if line.startswith(f"self.{name} = ")) - 1]
        assert above.startswith("#"), name
        assert above.count(". ") >= 1, name
        assert f"_metrics.{name}." in used, name
    assert set(MqttMetrics().collectors()) != set()
    assert len(MqttMetrics().collectors()) == len(metrics)

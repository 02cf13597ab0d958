"""Health as metrics, so that alerts can say what a probe only answers with no."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from steepest.runtime.monitoring.health import Health


class HealthMetrics(Collector):
    """The health of one process at each scrape, which comes on a thread of its own."""

    def __init__(self, health: Health) -> None:
        self._health = health

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Every metric, without values."""
        return [
            GaugeMetricFamily(
                "steepest_silence_seconds",
                "Seconds for which a loop has said nothing, or an effector has done nothing that it must do again and again."
                " Near 60: the process ends, to be started again; see its log for a call that hangs.",
                labels=["kind", "part"],
            ),
            GaugeMetricFamily(
                "steepest_ready",
                "1 once every loop has caught up and keeps up. 0 for minutes: see `steepest_lag_records`, and the log.",
            ),
            GaugeMetricFamily(
                "steepest_log_refused",
                "1 where the log is not for this process, which ends. See its last words: an upgrade is due, or a topic was"
                " deleted and created again.",
            ),
        ]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Every metric with its values."""
        silence, ready, refused = self.describe()
        for kind, part, silence_s in self._health.silences():
            silence.add_metric([kind, part], round(silence_s, 3))
        ready.add_metric([], self._health.is_ready())
        refused.add_metric([], bool(self._health.refusal))
        return [silence, ready, refused]

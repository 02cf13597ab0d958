"""Health as metrics: silence by part, readiness, and a log that is not for this reader."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from steepest.runtime.monitoring.health import Health
from steepest.runtime.monitoring.health_metrics import HealthMetrics


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def now_ms(self) -> int:
        """Milliseconds."""
        return int(1000 * self.now)

    async def sleep(self, seconds: float) -> None:
        """Go on at once."""
        self.now += seconds


def test_silence_readiness_and_refusal() -> None:
    """Each loop and each effector has its own silence."""
    clock = Clock()
    health = Health(clock)
    registry = CollectorRegistry()
    registry.register(HealthMetrics(health))
    health.progress("pool:default", 10, 0, ready=True)
    health.listen("heartbeat-sender:default", lambda: 7.0)
    assert registry.get_sample_value("steepest_ready") == 1

    clock.now += 12
    health.refuse("written by a newer version")

    def silence(kind: str, part: str) -> float | None:
        return registry.get_sample_value("steepest_silence_seconds", {"kind": kind, "part": part})

    assert silence("loop", "pool:default") == 12
    assert silence("effector", "heartbeat-sender:default") == 7
    assert registry.get_sample_value("steepest_ready") == 0
    assert registry.get_sample_value("steepest_log_refused") == 1

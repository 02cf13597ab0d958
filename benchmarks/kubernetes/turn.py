"""What was measured of one contender once, and what is computed of it alone.

It owns these figures' units. It must never measure.
"""

from __future__ import annotations

import statistics

import msgspec

MEASURING = "get nodes/proxy"
"""What is sent to measure use: so many a second, whether anything is placed or not."""

OWN = ("(fake kubelets)", "(benchmark)")
"""Processes that no cluster would have."""


class Turn(msgspec.Struct, kw_only=True):
    """What was measured of one contender once.

    Attributes:
        name: The contender.
        placed: Jobs whose pod was bound.
        seconds: From the first submission to the last binding.
        waited_ms: From each job's submission to its pod's binding, in milliseconds.
        decided_ms: From each decision to its pod's running, in milliseconds; empty: it does not say when it decides.
        requests: What the contender has sent until the last binding, by user and kind.
        rss_mib: The largest memory of each process seen.
        cpu_s: The processor time that each process used from the first submission until all pods were seen to run.
        load: The machine's load average over a minute, at the end.
        restarts: How often a process of the contender's was stuck and was started again.
    """

    name: str
    placed: int = 0
    seconds: float = 0.0
    waited_ms: list[float] = []
    decided_ms: list[float] = []
    requests: dict[str, dict[str, int]] = {}
    rss_mib: dict[str, int] = {}
    cpu_s: dict[str, float] = {}
    load: float = 0.0
    restarts: int = 0

    @property
    def per_s(self) -> float:
        """Placements a second."""
        return self.placed / self.seconds if self.seconds else 0.0

    @property
    def requests_each(self) -> float:
        """Requests of the contender's for each placement, without those that measure use."""
        sent = sum(count for kinds in self.requests.values() for kind, count in kinds.items() if kind != MEASURING)
        return sent / self.placed if self.placed else 0.0

    @property
    def cpu_ms_each(self) -> float:
        """Processor time of the control plane and the contender for each placement, in milliseconds."""
        used_s = sum(spent for name, spent in self.cpu_s.items() if name not in OWN)
        return 1_000 * used_s / self.placed if self.placed else 0.0


def spread(values: list[float]) -> dict[str, float | None]:
    """The median and the 99th percentile."""
    if len(values) <= 1:
        return {"p50": None, "p99": None}
    return {"p50": round(statistics.median(values)), "p99": round(statistics.quantiles(values, n=100)[98])}

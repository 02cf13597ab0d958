"""The newest samples of pools, as a collector of the process's registry.

A scrape comes on a thread of its own and reads what was sampled last; it never looks at a view.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from steepest.pool_metrics.sample import JOB_GAUGES, NODE_GAUGES, POOL_GAUGES, PoolSample


def _labels() -> dict[str, tuple[str, tuple[str, ...]]]:
    found = {name: (one.about, one.labels) for name, one in POOL_GAUGES.items()}
    found |= {name: (of_node.about, ("node",)) for name, of_node in NODE_GAUGES.items()}
    return found | {name: (of_job.about, ("job_name", "node")) for name, of_job in JOB_GAUGES.items()}


class PoolGauges(Collector):
    """Gauges of every pool that a process follows.

    Attributes:
        jobs_named: How many running jobs of each pool are shown by name.
    """

    def __init__(self, registry: CollectorRegistry, jobs_named: int = 0) -> None:
        self.jobs_named = jobs_named
        self._samples: dict[str, PoolSample] = {}
        self._definitions = _labels()
        registry.register(self)

    def show(self, pool: str, sample: PoolSample) -> None:
        """This is the newest sample of a pool; it is not changed any more."""
        self._samples[pool] = sample

    def forget(self, pool: str) -> None:
        """Another process follows the pool now."""
        self._samples.pop(pool, None)

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Every gauge, without values."""
        return [
            GaugeMetricFamily(f"steepest_{name}", about, labels=["pool", *labels])
            for name, (about, labels) in self._definitions.items()
        ]

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Every gauge with the values of the newest samples."""
        families = dict(zip(self._definitions, self.describe(), strict=True))
        for pool, sample in list(self._samples.items()):
            for name, series in sample.values.items():
                for labels, value in series.items():
                    families[name].add_metric([pool, *labels], value)
        return [family for family in families.values() if family.samples]

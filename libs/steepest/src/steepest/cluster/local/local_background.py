"""The background tasks that only the local adapter has: it divides CPU and removes control groups.

It removes the links of nodes likewise. It must never start or stop a replica.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping

import msgspec

from steepest.cluster.folders.background import AdapterSettings, Background
from steepest.cluster.heartbeat_fanout import NO_FACTS, GpuFacts
from steepest.cluster.local.duty_cycles import DutyCycles, send_order
from steepest.cluster.local.groups import Groups, keeper_group
from steepest.cluster.local.links import NodeLinks
from steepest.cluster.local.nvml import NvmlGpus
from steepest.cluster.local.process_roster import LocalRoster, LocalTracked
from steepest.errors import UntrustedError
from steepest.events.common import KeeperFacts
from steepest.events.facts import FailedGpu
from steepest.logger import Logger
from steepest.untrusted import files, json

_log = Logger()
_FAILURES_BYTES_MOST = 1 << 16


class GpuFailures(msgspec.Struct, frozen=True):
    """``failed-gpus.json``: why GPUs are out of use, by their places on the bus, until the machine starts again."""

    boot: str
    failures: dict[str, str]


class LocalBackground(Background[LocalTracked]):
    """The adapter's background tasks. Create it in a running loop, after the roster was loaded.

    Args:
        groups: Control groups, already open; None: CPU is divided by duty cycles.
        links: The links that join the nodes, already made; None: there are none.
        gpus: The ids of each node's GPUs.
        driver: What is known of them; None: nothing.
        boot: The machine's present boot.
        keeper: What images depend on here; None: no job has a keeper unless its user asks for it.
    """

    roster: LocalRoster

    def __init__(
        self,
        settings: AdapterSettings,
        roster: LocalRoster,
        groups: Groups | None,
        links: NodeLinks | None,
        *,
        gpus: Mapping[str, range],
        driver: NvmlGpus | None,
        boot: str,
        keeper: KeeperFacts | None = None,
    ) -> None:
        super().__init__(settings, roster)
        self._keeper = keeper
        self._gpus, self._driver = gpus, driver
        self._failures = GpuFailures(boot, {})
        self._links = links
        self.groups = groups
        self.duty = DutyCycles({node: capacity.cpu_m for node, capacity in settings.capacities.items()})

    def recall_failures(self) -> None:
        """Take in which GPUs had failed before the adapter was opened. It blocks."""
        path = self._state.failed_gpus
        try:
            known = json.read_json(path, GpuFailures, below=self._state.path, most=_FAILURES_BYTES_MOST)
        except FileNotFoundError:
            return
        except UntrustedError as error:
            _log.warning("failed GPUs are not known", why=str(error))
            return
        if self._driver is not None and known.boot == self._failures.boot:
            self._driver.recall(known.failures)

    def _look_at_gpus(self) -> None:
        if self._driver is None:
            return
        self._driver.look()
        found = GpuFailures(self._failures.boot, self._driver.failures)
        if found != self._failures:
            files.replace(self._state.failed_gpus, msgspec.json.encode(found), below=self._state.path)
            self._failures = found

    async def see(self) -> list[LocalTracked]:
        """See ``Background.see``."""
        return await asyncio.to_thread(self.roster.look)

    async def measure(self) -> None:
        """See ``Background.measure``."""
        await asyncio.to_thread(self.roster.measure, time.monotonic())
        await asyncio.to_thread(self._look_at_gpus)

    async def finish(self, ended: LocalTracked) -> None:
        """See ``Background.finish``: whether its GPU failed is known before its end is reported."""
        if ended.gpus:
            await asyncio.to_thread(self._look_at_gpus)

    def gpu_facts(self, node: str) -> GpuFacts:
        """See ``Background.gpu_facts``."""
        if self._driver is None:
            return NO_FACTS
        use, failed = self._driver.use, self._driver.failed
        return GpuFacts(
            tuple(use[gpu] for gpu in self._gpus[node] if gpu in use),
            tuple(FailedGpu(gpu, failed[gpu]) for gpu in self._gpus[node] if gpu in failed),
        )

    def keeper_facts(self, node: str) -> KeeperFacts | None:
        """See ``Background.keeper_facts``: the nodes share this machine."""
        del node
        return self._keeper

    async def changed(self, *, measured: bool) -> None:
        """Divide the nodes' CPU among replicas without a control group, and send the shares to their supervisors."""
        orders = self.duty.divide(self.roster.running(), measured=measured)
        await asyncio.to_thread(_send_shares, orders)

    def unwatch(self, tracked: LocalTracked) -> None:
        """See ``Background.unwatch``."""
        super().unwatch(tracked)
        if self.groups is not None and tracked.cgroup is not None:
            self.groups.remove(tracked.cgroup)
            self.groups.remove(keeper_group(tracked.cgroup))

    async def close(self) -> None:
        """See ``Background.close``."""
        await super().close()
        if self.groups is not None:
            await asyncio.to_thread(self.groups.close)
        if self._links is not None:
            await asyncio.to_thread(self._links.close, [tracked.node for tracked in self.roster.running()])


def _send_shares(orders: Iterable[tuple[LocalTracked, int]]) -> None:
    for tracked, permille in orders:
        send_order(tracked.folder.orders, f"share {permille}")

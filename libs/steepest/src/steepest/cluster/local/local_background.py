"""The background tasks that only the local adapter has: it divides CPU and removes control groups.

It removes the links of nodes likewise. It must never start or stop a replica.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from steepest.cluster.folders.background import AdapterSettings, Background
from steepest.cluster.local.duty_cycles import DutyCycles, send_order
from steepest.cluster.local.groups import Groups, keeper_group
from steepest.cluster.local.links import NodeLinks
from steepest.cluster.local.process_roster import LocalRoster, LocalTracked
from steepest.cluster.nvml import MachineGpus
from steepest.events.common import KeeperFacts


class LocalBackground(Background[LocalTracked]):
    """The adapter's background tasks. Create it in a running loop, after the roster was loaded.

    Args:
        groups: Control groups, already open; None: CPU is divided by duty cycles.
        links: The links that join the nodes, already made; None: there are none.
        gpus: What is known of this machine's GPUs; None: nothing.
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
        gpus: MachineGpus | None,
        keeper: KeeperFacts | None = None,
    ) -> None:
        super().__init__(settings, roster, gpus)
        self._keeper = keeper
        self._links = links
        self.groups = groups
        self.duty = DutyCycles({node: capacity.cpu_m for node, capacity in settings.capacities.items()})

    async def see(self) -> list[LocalTracked]:
        """See ``Background.see``."""
        return await asyncio.to_thread(self.roster.look)

    async def measure(self) -> None:
        """See ``Background.measure``."""
        await asyncio.to_thread(self.roster.measure, time.monotonic())

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

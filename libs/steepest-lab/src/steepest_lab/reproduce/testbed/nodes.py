"""The nodes of an experiment: one pinned engine, several engines, or emulated nodes on this machine.

It owns how large nodes are where several share the machine: together they have 80 % of two cores, so that a node that has
nothing to do is idle. They are equal, as the experiments' are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from steepest.app.state_folder import NodeSpec
from steepest.events.common import Resources
from steepest_lab.demo import engines, stage
from steepest_lab.demo.workload import CORES, Arrival, DemoWorkload

if TYPE_CHECKING:
    from steepest_lab.docker_engines.engine_daemon import DockerEngine

SHARE = 0.8
"""Of the cores, for all nodes together; the rest is Steepest's and the system's."""

CPU_M = 800
"""The size of the one pinned node, in millicores. The rest of its core is for the kernel and the engine itself."""

MEMORY_MIB = 4096


class Testbed(msgspec.Struct, frozen=True):
    """Equal nodes.

    Attributes:
        on_engines: Whether they are Docker engines; otherwise they are emulated.
    """

    nodes: tuple[NodeSpec, ...]
    on_engines: bool

    @property
    def cpu_m(self) -> int:
        """The size of a node, in millicores."""
        return self.nodes[0].capacity.cpu_m

    def staged(self, arrivals: tuple[Arrival, ...]) -> DemoWorkload:
        """Jobs as a workload for these nodes."""
        given = DemoWorkload(nodes=self.nodes, arrivals=arrivals, soft_limits=self.on_engines)
        return engines.on(given, self.nodes) if self.on_engines else given


def one(engine: DockerEngine) -> Testbed:
    """An engine as the only node."""
    node = NodeSpec("n1", Resources(cpu_m=CPU_M, memory_mib=MEMORY_MIB), engine=engine.url)
    return Testbed((node,), on_engines=True)


def emulated(count: int, share: float = SHARE) -> Testbed:
    """Nodes that are emulated on this machine; ``share``: of the cores, for all of them together."""
    return Testbed(_equal(count, share), on_engines=False)


@contextlib.contextmanager
def several(count: int) -> Iterator[Testbed]:
    """Docker engines of their own, within the block.

    Raises:
        InputError: What they need is missing.
        ClusterError: One does not start.
    """
    with engines.own_engines(DemoWorkload(nodes=_equal(count, SHARE), arrivals=())) as given:
        yield Testbed(given.nodes, on_engines=True)


def _equal(count: int, share: float) -> tuple[NodeSpec, ...]:
    cpu_m = int(1000 * share * min(stage.cores(), CORES) / count)
    return tuple(NodeSpec(f"n{number}", Resources(cpu_m)) for number in range(1, count + 1))

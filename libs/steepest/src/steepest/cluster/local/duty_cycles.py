"""CPU caps without control groups: each replica runs for a share of the time, which is updated as usage changes.

It owns the computation from a node's capacity to the ‰ that each supervisor gets; supervisors stop and continue the
processes. It must never know control groups. A share in millicores is divided by the measured parallelism to get a share of
the time: a replica that uses two cores while it runs gets half the time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence

from steepest.cluster.local.process_roster import LocalTracked
from steepest.cluster.local.shares import demand, divide
from steepest.cluster.local.supervisor import FULL_SHARE
from steepest.cluster.port import ReplicaId
from steepest.max_min import max_min

_Key = tuple[ReplicaId, int]
_SMOOTHING = 0.5  # weight of the newest measurement of parallelism: two heartbeats cover 75 % of a change


class _DutyState:
    """The current share of one replica."""

    def __init__(self) -> None:
        self.share_m: float | None = None
        self.permille = FULL_SHARE
        self.parallelism = 1.0

    def measured(self, used_m: int | None) -> None:
        if used_m is not None:
            # Below 1 the job was waiting or the machine was full; neither may raise the cap of the next burst.
            now = max(used_m / self.permille, 1.0)
            self.parallelism += _SMOOTHING * (now - self.parallelism)

    def assign(self, share_m: float) -> int:
        self.share_m = share_m
        self.permille = min(max(round(share_m / self.parallelism), 1), FULL_SHARE)
        return self.permille


class DutyCycles:
    """Divides each node's capacity among the replicas that have no control group.

    Args:
        capacities_m: Node to millicores.
    """

    def __init__(self, capacities_m: Mapping[str, int]) -> None:
        self._capacities_m = capacities_m
        self._states: dict[_Key, _DutyState] = {}

    def first(self, node: str, limit_m: int | None, others: Sequence[LocalTracked]) -> int:
        """The ‰ to start a replica with: its share if every replica on the node uses all that it may."""
        bounds = [self._bound(node, each.limit_m) for each in others if each.node == node and each.runs]
        shares = max_min(self._capacities_m[node], [*bounds, self._bound(node, limit_m)])
        return min(max(round(shares[-1]), 1), FULL_SHARE)

    def divide(self, running: Sequence[LocalTracked], *, measured: bool) -> list[tuple[LocalTracked, int]]:
        """Compute the shares again; return the ‰ of every replica, changed or not.

        Args:
            running: The running replicas of all nodes.
            measured: Whether their usage was measured since the last call.
        """
        throttled = {_key(each): each for each in running if each.cgroup is None and each.node in self._capacities_m}
        self._states = {key: self._states.get(key) or _DutyState() for key in throttled}
        if measured:
            for key, each in throttled.items():
                self._states[key].measured(each.use.cpu_m)
        orders = []
        for node, capacity_m in self._capacities_m.items():
            here = {key: each for key, each in throttled.items() if each.node == node}
            shares = divide(
                capacity_m,
                {key: self._bound(node, each.limit_m) for key, each in here.items()},
                {key: demand(self._states[key].share_m, each.use.cpu_m) for key, each in here.items()},
            )
            orders += [(each, self._states[key].assign(shares[key])) for key, each in here.items()]
        return orders

    def _bound(self, node: str, limit_m: int | None) -> int:
        capacity_m = self._capacities_m[node]
        return capacity_m if limit_m is None else min(limit_m, capacity_m)


def _key(tracked: LocalTracked) -> _Key:
    return (tracked.folder.replica, tracked.folder.incarnation)


def send_order(tracked_orders: os.PathLike[str], order: str) -> bool:
    """Write an order to a supervisor; False if no supervisor reads, or if the pipe is full."""
    try:
        pipe = os.open(tracked_orders, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # it has no reader: the supervisor has not started or has ended
        return False
    try:
        if not stat.S_ISFIFO(os.fstat(pipe).st_mode):  # the job replaced it with another kind of file
            return False
        os.write(pipe, order.encode() + b"\n")
    except (BlockingIOError, BrokenPipeError):
        return False
    finally:
        os.close(pipe)
    return True

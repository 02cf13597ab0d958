"""The checker of single devices: none is held whole by two replicas at the same time."""

from __future__ import annotations

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.folds import LogFolds
from steepest.invariants.processes import RunningProcess
from steepest.invariants.verdict import Checker

WHOLE_M = 1_000


class DeviceShared(Checker):
    """No GPU is held whole by one replica while another holds it too, and shares of one are at most all of it.

    ``ReplicaStarted`` says which GPUs of its node a replica has: as many whole ones as it asks for, then the one of which it
    has a share. It holds them while its process may run. Where the ids are not on the log, nothing is known.
    """

    name = "device-shared"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._held: dict[tuple[str, int], list[tuple[RunningProcess, int, int]]] = {}

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event = received.event
        if not isinstance(event, c.ReplicaStarted) or not event.gpus:
            return
        key = (event.incarnation, event.replica, event.node)
        mine = next((one for one in self._folds.processes.of(event.job) if _key(one) == key), None)
        if mine is None:
            return  # the report comes after its end
        whole, share_m = divmod(self._folds.reservations.asks(mine).all_gpus_m, WHOLE_M)
        for place, gpu in enumerate(event.gpus):
            taken_m = WHOLE_M if place < whole else share_m
            device = event.node, gpu
            others = [one for one in self._held.get(device, ()) if self._runs(one[0]) and one[0] is not mine]
            self._held[device] = [*others, (mine, taken_m, received.offset)]
            if others and taken_m + sum(one[1] for one in others) > WHOLE_M:
                who = ", ".join(_name(one[0]) for one in others)
                offsets = [one[2] for one in others]
                self.breach(f"{_name(mine)} has GPU {gpu} of {event.node}, which {who} has", *offsets, received.offset)

    def _runs(self, process: RunningProcess) -> bool:
        return any(one is process for one in self._folds.processes.of(process.job))


def _key(process: RunningProcess) -> tuple[int, int, str]:
    return process.incarnation, process.replica, process.node


def _name(process: RunningProcess) -> str:
    return f"{process.job}/{process.replica}/{process.incarnation}"

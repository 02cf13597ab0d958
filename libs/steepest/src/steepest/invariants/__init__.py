"""The invariants of a pool's log: checkers that fold it and report whether each invariant holds, is broken or unknown.

They run on recordings (``steepest check``), in property tests, in simulation and after every chaos run. A checker knows
only the events, so that an error in the view, a decider or the migrator cannot hide itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from steepest.events.cluster import ClusterEvent
from steepest.events.received import Received
from steepest.invariants.audit import Audit, MakeChecker, check_with
from steepest.invariants.checkers.accounting import Accounting
from steepest.invariants.checkers.capacity import Capacity
from steepest.invariants.checkers.decision_ids import DecisionIds
from steepest.invariants.checkers.device_shared import DeviceShared
from steepest.invariants.checkers.fair_end import FairEnd
from steepest.invariants.checkers.gang_whole import GangWhole
from steepest.invariants.checkers.incarnations_rise import Incarnations
from steepest.invariants.checkers.limit_rules import Limits
from steepest.invariants.checkers.one_place import OnePlace
from steepest.invariants.checkers.parameters_in_force import AnnouncedParameters, ParametersInForce
from steepest.invariants.checkers.plan_once import PlanOnce
from steepest.invariants.checkers.preemption import (
    MinRunTime,
    MostSuspensions,
    NoPingPong,
    PromisedRoom,
    SuspendedResume,
)
from steepest.invariants.checkers.queue_limits import QueueLimitsKept
from steepest.invariants.checkers.reserved_first import ReservedFirst
from steepest.invariants.checkers.steps_lost import StepsLost
from steepest.invariants.checkers.valid_plans import ValidPlans
from steepest.invariants.checkers.whole_devices import WholeDevices
from steepest.invariants.verdict import Checker, Status, Verdict

ALL: tuple[type[Checker], ...] = (
    OnePlace,
    PlanOnce,
    ValidPlans,
    Capacity,
    ReservedFirst,
    Incarnations,
    Accounting,
    DecisionIds,
    StepsLost,
    Limits,
    FairEnd,
    GangWhole,
    SuspendedResume,
    MinRunTime,
    MostSuspensions,
    NoPingPong,
    PromisedRoom,
    QueueLimitsKept,
    WholeDevices,
    DeviceShared,
)
"""The checkers that need only ``cluster``, in the order of their verdicts."""


def all_with(losses: AnnouncedParameters) -> Sequence[MakeChecker]:
    """All checkers, for a pool whose partitions of ``loss`` were folded."""
    return (*ALL, partial(ParametersInForce, losses))


def check(records: Iterable[Received[ClusterEvent]], losses: Iterable[Received[Any]] = ()) -> list[Verdict]:
    """Run all checkers on one partition of ``cluster`` and return their verdicts.

    Args:
        records: The partition's records, in order from the first on.
        losses: The records of ``loss``, each partition's in order from the first on.

    Raises:
        InputError: The records belong to more than one partition.
    """
    watched = AnnouncedParameters()
    for received in losses:
        watched.feed(received)
    return check_with(all_with(watched), records)


__all__ = ["ALL", "AnnouncedParameters", "Audit", "Checker", "Status", "Verdict", "all_with", "check", "check_with"]

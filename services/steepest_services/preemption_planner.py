"""The preemption planner: predicts run times, and gives waiting jobs places of running ones where that pays (PickyMan).

Reads: ``cluster``
Writes: ``cluster``: ``RunTimePredicted``, ``OverheadPredicted``, ``OverheadMeasured``, ``TransitionPlanned``,
    ``PlacementPlanned``
Scales by: a pool
"""

from __future__ import annotations

from steepest.app.context import ServiceContext
from steepest.app.service_main import run_service
from steepest.policies.pickyman.predictor import Predictor
from steepest.policies.pickyman.preemption_planner import PreemptionPlanner
from steepest.runtime.service import Service


def build(_: ServiceContext) -> Service:
    """The service's parts."""
    return Service(name="preemption-planner", cluster_deciders=(Predictor, PreemptionPlanner))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)


if __name__ == "__main__":
    main()

"""The placer: admission, first placement, retries, goals, trials, and the end of every job.

Reads: ``cluster``
Writes: ``cluster``: ``JobAdmitted``, ``JobRejected``, ``PlacementPlanned``, ``RetryPlanned``, ``JobEnded``, ``TrialJudged``
Scales by: a pool
"""

from __future__ import annotations

from steepest.app.context import ServiceContext
from steepest.app.service_main import run_service
from steepest.policies.goal_watcher import GoalWatcher
from steepest.policies.placement.placer import Placer
from steepest.policies.sweep.trial_judge import TrialJudge
from steepest.runtime.service import Service


def build(_: ServiceContext) -> Service:
    """The service's parts."""
    return Service(name="placer", cluster_deciders=(Placer, GoalWatcher, TrialJudge))


def main() -> None:
    """Run the service alone, until SIGTERM or SIGINT."""
    run_service(build)


if __name__ == "__main__":
    main()

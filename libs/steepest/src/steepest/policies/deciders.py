"""All deciders by name: what a replay, a shadow or a simulation runs. A test holds the services to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steepest.policies.dragon.gang_scheduler import GangScheduler
from steepest.policies.flowcon.limit_planner import LimitPlanner
from steepest.policies.goal_watcher import GoalWatcher
from steepest.policies.monitor.facts import Facts
from steepest.policies.monitor.silence import Silence
from steepest.policies.pickyman.predictor import Predictor
from steepest.policies.pickyman.preemption_planner import PreemptionPlanner
from steepest.policies.pickyman.profiler import Profiler
from steepest.policies.placement.placer import Placer
from steepest.policies.specon.categorizer import Categorizer
from steepest.policies.specon.node_scorer import NodeScorer
from steepest.policies.specon.rebalancer import Rebalancer
from steepest.policies.steepest.devices.device_planner import DevicePlanner
from steepest.policies.steepest.steepest_planner import SteepestPlanner
from steepest.policies.sweep.trial_judge import TrialJudge
from steepest.policies.watch.watcher import Watcher

CLUSTER_DECIDERS: Mapping[str, Any] = {
    kind.name: kind
    for kind in (
        Silence,
        Watcher,
        Placer,
        GangScheduler,
        GoalWatcher,
        TrialJudge,
        NodeScorer,
        Rebalancer,
        LimitPlanner,
        SteepestPlanner,
        DevicePlanner,
        Predictor,
        PreemptionPlanner,
    )
}
"""Those that read ``cluster``; each is made with its state, or without one to start from the beginning."""

STREAM_DECIDERS: Mapping[str, Any] = {kind.name: kind for kind in (Facts, Profiler, Categorizer)}
"""Those that read another topic; one is made for each of its partitions."""

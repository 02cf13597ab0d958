"""A decider is asked about every event that its code tells apart: a new case without an entry would never be reached."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from steepest.events import cluster as c
from steepest.policies.decider import EVERY, SWITCHES
from steepest.policies.deciders import CLUSTER_DECIDERS
from steepest.policies.dragon import gang_scheduler
from steepest.policies.goal_watcher import GoalWatcher
from steepest.policies.monitor.silence import Silence
from steepest.policies.pickyman import preemption_planner
from steepest.policies.placement import placer
from steepest.policies.specon.node_scorer import NodeScorer
from steepest.policies.specon.rebalancer import Rebalancer
from steepest.policies.steepest import steepest_planner
from steepest.policies.sweep.trial_judge import TrialJudge
from steepest.policies.watch.watcher import Watcher
from steepest.sagas import limit_machine
from steepest_lab.sim.system import schedule

ON = {c.Tick}
"""What the two planners tell apart only while they are on, and then they are asked about everything."""

TABLES: dict[str, tuple[Callable[..., Any], frozenset[type]]] = {
    "silence": (Silence.step, Silence.reads),
    "watcher": (Watcher.step, Watcher.reads),
    "goals": (GoalWatcher.step, GoalWatcher.reads),
    "trials": (TrialJudge.step, TrialJudge.reads),
    "scorer": (NodeScorer.step, NodeScorer.reads),
    "rebalancer": (Rebalancer.step, Rebalancer.reads),
    "dragon off": (gang_scheduler.GangScheduler._take_in, gang_scheduler.WHILE_OFF - SWITCHES),
    "steepest off": (steepest_planner.SteepestPlanner.step, steepest_planner.WHILE_OFF - SWITCHES | ON),
    "pickyman off": (preemption_planner.PreemptionPlanner.step, preemption_planner.WHILE_OFF - SWITCHES | ON),
    "placer, decided": (placer.Placer._note_decided, placer.DECIDED),
    "limits": (limit_machine.LimitMachine._note, limit_machine.OF_LIMITS),
    "schedule": (schedule.Schedule.add, schedule.TOLD_BY),
}
"""By what is read: the code, and the table in front of it."""


def told_apart(function: Callable[..., Any]) -> set[type]:
    """The classes of a function's ``match`` statements, and of its calls of ``isinstance``."""
    names = inspect.getmodule(function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    written = [node.cls for node in ast.walk(tree) if isinstance(node, ast.MatchClass)]
    written += [
        node.args[1]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
    ]
    found: set[type] = set()
    for expression in written:
        value = eval(ast.unparse(expression), vars(names))  # noqa: S307 - the project's own source
        found.update(value if isinstance(value, tuple) else (value,))
    return found


@pytest.mark.parametrize("of", TABLES)
def test_a_table_has_the_events_that_the_code_behind_it_tells_apart(of: str) -> None:
    """No case is dead, and nothing is asked in vain."""
    code, table = TABLES[of]

    assert told_apart(code) == table


def test_every_decider_is_asked_about_everything_or_has_a_table_here() -> None:
    """A decider that comes with a table of its own must be added above."""
    with_table = {kind for kind in CLUSTER_DECIDERS.values() if kind().reads != EVERY}

    assert with_table == {Silence, Watcher, GoalWatcher, TrialJudge, NodeScorer, Rebalancer}

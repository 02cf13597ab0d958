"""The counters and histograms of pools: what each means, and what to do about it.

``docs/metrics.md`` is generated from here.

Kinds of plans, outcomes, codes and rules are labels, so that a new one needs no metric of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.metrics import MetricWrapperBase

from steepest.events.cluster import FindingKind, GrowthList, MoveKind, Outcome, Overhead
from steepest.view.plans import AT, MOVES
from steepest.view.state import MOVING, PlanKind, PlanStatus

STEP_S = (0.1, 0.3, 1, 3, 10, 30, 60, 120, 300)
"""Seconds of a step or a plan; a checkpoint may take a minute, and a verification two."""

JOB_S = (10, 30, 60, 180, 600, 1_800, 3_600, 10_800, 36_000, 86_400, 259_200)
"""Seconds of a job's life: from a demo's to three days."""

EFFICIENCY = (0.0001, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3)
"""Around FlowCon's thresholds, which are between 0.01 and 0.15."""

ERROR = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5)
"""Shares of what was measured."""

"""Shares of a fair completion time; 0.03 is what `steepest` allows itself."""

OUTCOMES = tuple(status for status in PlanStatus if status is not PlanStatus.IN_FLIGHT)
CPU_TIME = "cpu_time"
"""The prediction of the CPU time that a whole job needs."""

RUN_TIME = "run_time"
"""The prediction of a job's run time from what was measured of its model."""

LIMIT_ANSWERS = ("applied", "refused", "unclear")
REACTED = (FindingKind.HUNG, FindingKind.DIVERGED, FindingKind.IDLE, FindingKind.GPU)
THEN = ("suspend", "restart", "fail")


class PoolCounters:
    """Counters of every pool that a process follows; the first label of each is the pool."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._all: list[MetricWrapperBase] = []

        def counter(name: str, about: str, *labels: str) -> Counter:
            self._all.append(made := Counter(f"steepest_{name}", about, ["pool", *labels], registry=registry))
            return made

        def histogram(name: str, about: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            made = Histogram(f"steepest_{name}", about, ["pool", *labels], registry=registry, buckets=buckets)
            self._all.append(made)
            return made

        self.plans = counter(
            "plans",
            "Plans that are over, by kind and outcome; `void`: not valid at their position in the log. Many that"
            " failed or were abandoned: see `steepest_plan_step_failures_total`.",
            "kind",
            "outcome",
        )
        self.void_plans = counter(
            "plans_void",
            "Plans that were void at their position in the log, by the code of the refusal. Some are normal, for deciders"
            " decide at the same time. Rising steadily with one code: `steepest explain` names the jobs and says why.",
            "kind",
            "refusal",
        )
        self.plan_seconds = histogram(
            "plan_seconds",
            "Seconds from a plan to its end, of those that finished. High: see `steepest_plan_step_seconds`.",
            STEP_S,
            "kind",
        )
        self.step_seconds = histogram(
            "plan_step_seconds",
            "Seconds from the beginning of a step to its outcome. A long `checkpoint`: the job saves slowly; a long `start`"
            " or `verify`: its node or its storage is slow.",
            STEP_S,
            "kind",
            "step",
        )
        self.step_failures = counter(
            "plan_step_failures",
            "Steps that failed, by code. Rising: `steepest events --type StepFailed` shows why.",
            "kind",
            "step",
            "code",
        )
        self.pause_seconds = histogram(
            "plan_pause_seconds",
            "Seconds for which a job that was moved or scaled made no step. High compared with the gain of its move: see"
            " `save` and `load` of the job.",
            STEP_S,
            "kind",
        )
        self.steps_lost = counter(
            "steps_lost",
            "Training steps that jobs do again because of plans. Rising: jobs are moved that save too rarely.",
            "kind",
        )
        self.moves = counter("moves", "Jobs moved to another node, by the rule that moved them.", "rule")
        self.moves_back = counter(
            "moves_back",
            "Moves to a node that the job had left before. Rising: two rules move a job back and forth.",
            "rule",
        )
        self.resumptions = counter("resumptions", "Suspended jobs that were placed again.")
        self.category_changes = counter(
            "category_changes", "Jobs that went from one category to another.", "before", "after"
        )
        self.stays = counter("stays", "Requests for another place that were answered with: stay.")
        self.limits = counter(
            "limits",
            "CPU limits that the engine took (`applied`), `refused`, or left open (`unclear`). Refused or unclear ones"
            " rising: `steepest events --type LimitsRefused` shows why.",
            "outcome",
        )
        self.efficiency = histogram(
            "growth_efficiency_ratio",
            "FlowCon's growth efficiency of a job, at each run of its algorithm, by the list that it was in.",
            EFFICIENCY,
            "list",
        )
        self.retries = counter(
            "retries",
            "Jobs that wait for a place again after they stopped; `charged`: it counts against the job's retries.",
            "charged",
        )
        self.findings = counter(
            "findings",
            "Findings about running jobs, by kind: see docs/watching.md. Rising `hung` or `idle`: jobs hold their places"
            " without effect; `steepest jobs` names them, and `submit --on-hung restart` deals with them.",
            "kind",
        )
        self.reactions = counter(
            "reactions", "Jobs that were stopped because of a finding, by its kind and what followed.", "kind", "then"
        )
        self.notifications = counter(
            "notifications",
            "Messages about findings, by target and outcome. `failed` rising: the target does not take them; the"
            " worker-monitor tries again each minute, and its log says why. See the target's address in notify.file.",
            "target",
            "outcome",
        )
        self.goals = counter("goals_reached", "Jobs that were ended because they had reached their goal.")
        self.goals_saved = counter(
            "goals_saved_cpu_seconds",
            "CPU time that jobs still needed up to their announced ends when they had reached their goals.",
        )
        self.wait_seconds = histogram(
            "job_wait_seconds",
            "Seconds from a job's submission to its first start. High: the pool is too small, or the queue's limits are.",
            JOB_S,
            "queue",
        )
        self.completion_seconds = histogram(
            "job_completion_seconds",
            "Seconds from a job's submission to its end. Many with the outcome `failed`: `steepest jobs` says why.",
            JOB_S,
            "outcome",
        )
        self.t90_seconds = histogram(
            "job_t90_seconds",
            "Seconds from a job's submission until 90 % of its own loss reduction was done, of finished jobs. A policy"
            " that schedules by growth improves it first. Rising: see `steepest_job_wait_seconds`.",
            JOB_S,
        )
        self.prediction_errors = histogram(
            "prediction_error_ratio",
            "How far a prediction was off, as a share of what was measured then. Above 0.5 for most: jobs announce wrong"
            " totals, or their pace changes.",
            ERROR,
            "of",
        )

    def begin(self, pool: str) -> None:
        """Show a pool's counts from zero on: a series that begins at 1 has never risen."""
        steps = ((kind, step) for kind, moves in MOVES.items() for _, step in map(AT.__getitem__, moves) if step)
        rules = (*MoveKind, PlanKind.MOVE)
        known: tuple[tuple[MetricWrapperBase, Iterable[tuple[str, ...]]], ...] = (
            (self.plans, product(PlanKind, OUTCOMES)),
            (self.plan_seconds, product(MOVES)),
            (self.step_seconds, steps),
            (self.pause_seconds, product(sorted(MOVING))),
            (self.moves, product(rules)),
            (self.moves_back, product(rules)),
            (self.limits, product(LIMIT_ANSWERS)),
            (self.completion_seconds, product(Outcome)),
            (self.efficiency, product(GrowthList)),
            (self.prediction_errors, product((CPU_TIME, RUN_TIME, *Overhead))),
            (self.retries, product(("true", "false"))),
            (self.findings, product(FindingKind)),
            (self.reactions, product(REACTED, THEN)),
            (self.wait_seconds, product(("default",))),
            *(
                (one, product())
                for one in (self.t90_seconds, self.resumptions, self.stays, self.goals, self.goals_saved)
            ),
        )
        for metric, labels in known:
            for each in labels:
                metric.labels(pool, *each)

    def forget(self, pool: str) -> None:
        """Show nothing of a pool that another process follows now."""
        for metric in self._all:
            metric.remove_by_labels({"pool": pool})

    @property
    def collectors(self) -> tuple[MetricWrapperBase, ...]:
        """All of them, for the documentation."""
        return tuple(self._all)

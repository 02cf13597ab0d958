"""A pool under FlowCon, fed bucket by bucket with each job's loss in an interval and its usage."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from tests.harness.scenarios.folded_pool import START_MS, used
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.parameters import FlowConParameters, PoolParameters, SpeConParameters
from steepest.policies.decider import ClusterDecider
from steepest.policies.flowcon.limit_planner import LimitPlanner

ITVAL_MS = 10_000

NL, WL, CL = c.GrowthList.NEW, c.GrowthList.WATCHED, c.GrowthList.COMPLETING


class FlowConPool(DeciderDriver):
    """Nodes, a limit-planner, and any other deciders; FlowCon is on, with intervals of ten seconds."""

    def __init__(self, *others: ClusterDecider, moves: bool = False, on: bool = True, **nodes_cpu_m: int) -> None:
        """With these nodes."""
        self.flowcon = FlowConParameters(on=on, interval_ms=ITVAL_MS)
        self.moves = moves
        super().__init__(LimitPlanner(), *others, **nodes_cpu_m)
        self.configure()

    def configure(self, *, specon_ms: int = ITVAL_MS, **changes: object) -> list[c.ClusterEvent]:
        """Put FlowCon's parameters in force, with these changes."""
        self.flowcon = msgspec.structs.replace(self.flowcon, **changes)
        parameters = PoolParameters(
            flowcon=self.flowcon,
            moves=self.moves,
            specon=SpeConParameters(interval_ms=specon_ms),
            tick_ms=ITVAL_MS,
        )
        return self.ask(c.PoolConfigured(parameters=parameters))

    @property
    def planner(self) -> LimitPlanner:
        """The limit-planner."""
        planner = self.deciders[0]
        assert isinstance(planner, LimitPlanner)
        return planner

    def interval(
        self, number: int, others: Mapping[str, c.OtherUse] | None = None, /, **jobs: tuple[float, int]
    ) -> list[c.LimitsPlanned]:
        """An interval of the categorizer passes: of each job the mean of its loss, and what it used.

        Its tick comes last, so that the run that is due looks at it. Gives what was planned.
        """
        before = len(self.decided)
        end_ms = START_MS + number * ITVAL_MS
        for name, (_, cpu_m) in jobs.items():
            node = self.job(name).node
            assert node is not None
            self.now_ms = end_ms - ITVAL_MS // 2
            mine = {name: others[name]} if others and name in others else {}
            self.fold(msgspec.structs.replace(used(node, cpu_m, **{name: cpu_m}), others=mine))
        self.now_ms = end_ms
        self.feed(*(bucket(name, number, mean) for name, (mean, _) in jobs.items()))
        self.fold(c.Tick(counted_ms=self.view.counted_ms + ITVAL_MS))
        return [event for event in self.decided[before:] if isinstance(event, c.LimitsPlanned)]

    def limit(self, job: str) -> tuple[c.GrowthList | None, int | None]:
        """The list and the limit that a job is to have by the view."""
        limit = self.job(job).limit
        assert limit is not None
        return limit.growth_list, limit.cpu_m

    def apply(self, job: str) -> None:
        """The engine takes what is planned for a job."""
        found = self.job(job)
        assert found.limit is not None
        assert found.node is not None
        applied = c.LimitsApplied(
            plan=found.limit.plan,
            node=found.node,
            job=job,
            incarnation=found.incarnation,
            cpu_m=found.limit.cpu_m,
        )
        assert self.fold(applied)


def bucket(job: str, number: int, mean: float, *, largest: float = 1.0, count: int = 4) -> c.GrowthMeasured:
    """A complete bucket: its reports are spread over all of its interval."""
    end_ms = START_MS + number * ITVAL_MS
    return c.GrowthMeasured(
        job=job,
        interval=number,
        total=mean * count,
        count=count,
        largest=largest,
        first_ms=end_ms - ITVAL_MS + 1,
        last_ms=end_ms,
        category=c.Category.PROGRESSING,
    )

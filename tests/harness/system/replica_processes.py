"""The processes behind a pool in memory: steps act on them, they end when a test says so, and none is ever forgotten.

It owns the real state, which the view must arrive at: a step is done immediately, and the node reports each end once, after
some time. It must never read the view's state.
"""

from __future__ import annotations

from tests.harness.scenarios.folded_pool import success
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.sagas.next_action import next_action
from steepest.view.state import Plan


class ReplicaProcesses:
    """The process of each job, and a migrator that carries out plans on them.

    Attributes:
        running: The incarnation of each job that has a process.
        ends: How each incarnation that does not run any more ended.
        unreported: Ends that the node has not reported yet.
    """

    def __init__(self, driver: DeciderDriver) -> None:
        self.driver = driver
        self.running: dict[str, int] = {}
        self.ends: dict[tuple[str, int], int | None] = {}
        self.unreported: list[c.ReplicaStopped] = []
        self._nodes: dict[str, str] = {}

    # --- what happens by itself --------------------------------------------------------------------------------------

    def exit(self, job: str, status: int | None) -> bool:
        """A process ends by itself, and its node reports it; returns whether there was one."""
        if job not in self.running:
            return False
        self._end(job, status)
        self.report_ends()
        return True

    def report_ends(self) -> None:
        """The nodes report all ends that they have not reported yet."""
        while self.unreported:
            self.driver.fold(self.unreported.pop(0))

    def _end(self, job: str, status: int | None) -> None:
        incarnation = self.running.pop(job)
        self.ends[job, incarnation] = status
        self.unreported.append(
            c.ReplicaStopped(job=job, incarnation=incarnation, node=self._nodes[job], exit_status=status)
        )

    # --- what steps do -----------------------------------------------------------------------------------------------

    def perform(self, begun: c.StepBegun) -> c.ClusterEvent:
        """Act on a step that stands in the log, and give its outcome."""
        job, incarnation = begun.job, begun.incarnation
        alive = self.running.get(job) == incarnation
        status = self.ends.get((job, incarnation), 85)
        match begun.step:
            case c.Step.CHECKPOINT if not alive:
                return failed(begun, "not-running")
            case c.Step.STOP if (job, incarnation) not in self.ends and not alive:
                return failed(begun, "unknown-incarnation")
            case c.Step.STOP if alive:
                self._end(job, 85)
            case c.Step.START if (job, incarnation) not in self.ends:
                assert job not in self.running or alive, f"two processes of {job} run"
                self.running[job], self._nodes[job] = incarnation, begun.node
            case c.Step.VERIFY if not alive and status != 0:
                return failed(begun, "ended")
        return success(begun, self.driver.job(job), exit_status=status)

    def took_effect(self, begun: c.StepBegun) -> bool:
        """Whether a start or stop has happened already: asking for it again succeeds, and cannot be refused."""
        has_ended = (begun.job, begun.incarnation) in self.ends
        runs = self.running.get(begun.job) == begun.incarnation
        return has_ended if begun.step is c.Step.STOP else begun.step is c.Step.START and (runs or has_ended)

    # --- the migrator -------------------------------------------------------------------------------------------------

    def begin(self, job: str) -> c.StepBegun | None:
        """Let the migrator do what comes next for a job: a conclusion, or the beginning that is given back."""
        plan = self.driver.view.plan_of(self.driver.job(job))
        action = None if plan is None else self._next(plan)
        if action is not None:
            assert self.driver.fold(action), f"{action} does not count"
        return action if isinstance(action, c.StepBegun) else None

    def end(self, begun: c.StepBegun) -> None:
        """Carry out a step that was begun, and fold its outcome."""
        self.driver.fold(self.perform(begun))

    def settle(self) -> None:
        """Carry out all plans, and let time pass, until nothing is left to do.

        Raises:
            AssertionError: There always is something left.
        """
        for _ in range(200):
            self.report_ends()
            self.driver.deliver(everything=True)
            plans = list(self.driver.view.in_flight.values())
            if not plans and self._quiet():
                return
            for plan in plans:
                if (begun := self.begin(plan.job)) is not None:
                    self.end(begun)
            self.driver.tick(10_000)
        raise AssertionError(f"no end: {plans}")

    def _next(self, plan: Plan) -> c.ClusterEvent | None:
        return next_action(self.driver.view, plan, self.driver.now_ms)

    def _quiet(self) -> bool:
        """Whether time alone brings nothing new: neither a decision, nor a plan."""
        before = len(self.driver.decided)
        for _ in range(3):
            self.driver.tick(100_000)
            self.driver.deliver(everything=True)
        return len(self.driver.decided) == before and not self.driver.view.in_flight


def failed(begun: c.StepBegun, code: str, *, definite: bool = True) -> c.StepFailed:
    """A step that does not work."""
    return c.StepFailed(
        plan=begun.plan,
        step=begun.step,
        attempt=begun.attempt,
        job=begun.job,
        code=code,
        definite=definite,
        message=code,
    )

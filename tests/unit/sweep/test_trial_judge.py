"""Which trials of an array go on from their rungs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.scenarios.folded_pool import submitted
from tests.harness.system.driver import DeciderDriver

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode
from steepest.events.requests import Hold, Rungs
from steepest.policies.placement.placer import Placer
from steepest.policies.placement.standing import Waits, standings
from steepest.policies.sweep.trial_judge import TrialJudge
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job, Phase


class Sweep(DeciderDriver):
    """A pool with the trials ``t-0``, ``t-1``, ... of one array, which run as far as there is room."""

    def __init__(
        self, trials: int, *, cpu_m: int = 4_000, mode: CheckpointMode = CheckpointMode.ON_REQUEST, **spec: Any
    ) -> None:
        self.judge = TrialJudge()
        super().__init__(Placer(), self.judge, w1=cpu_m)
        fields: dict[str, Any] = {"array": "t", "rungs": Rungs(first=100, factor=3), **spec}
        self.names = [f"t-{number}" for number in range(trials)]
        self.feed(*(submitted(name, 100, mode, **fields) for name in self.names))
        self.settle()

    def settle(self) -> None:
        """Deliver what is decided, and carry out every plan."""
        for _ in range(4):
            self.tick()
            self.deliver(everything=True)
            for name in self.names:
                if self.job(name).plan is not None:
                    self.carry_out(name)
        self.deliver(everything=True)

    def reach(self, rung: int, **values: float | None) -> None:
        """Trials reach a rung with these values, one after the other; each is called ``t0`` for ``t-0``."""
        for name, value in values.items():
            job = f"t-{name[1:]}"
            incarnation = self.job(job).incarnation
            self.feed(c.RungReached(job=job, incarnation=incarnation, rung=rung, at=100 * 3**rung, value=value))
            self.settle()

    def finish(self, name: str, exit_status: int = 0) -> None:
        """A trial's process ends."""
        self.feed(self.stopped(name, exit_status))
        self.settle()

    @property
    def running(self) -> list[str]:
        """The trials whose processes run."""
        return [name for name in self.names if self.job(name).alive]

    @property
    def waiting(self) -> list[str]:
        """The trials that wait at a rung, without a process."""
        return [name for name in self.names if self.job(name).hold is Hold.RUNG and not self.job(name).alive]

    def judged(self, name: str) -> list[c.TrialJudged]:
        """What was decided about a trial."""
        return [event for event in self.decided if isinstance(event, c.TrialJudged) and event.job == name]

    def ended(self) -> dict[str, c.Outcome | None]:
        """The trials that are over, and how they ended."""
        return {name: self.job(name).outcome for name in self.names if self.job(name).phase is Phase.ENDED}


def test_one_in_three_goes_on_and_the_others_are_suspended() -> None:
    """The first two wait, because nobody knows yet whether they are good; the best of three goes on."""
    sweep = Sweep(4)
    sweep.reach(0, t0=0.5, t1=0.3)
    assert (sweep.running, sweep.waiting) == (["t-2", "t-3"], ["t-0", "t-1"])

    sweep.reach(0, t2=0.4)
    assert (sweep.running, sweep.waiting) == (["t-1", "t-3"], ["t-0", "t-2"])
    assert sweep.job("t-1").incarnation == 2
    assert [event.reason for event in sweep.judged("t-1")] == [
        "rank 1 of 2 at rung 0 (100)",
        "rank 1 of 3 at rung 0 (100)",
    ]
    assert standings(sweep.view)["t-0"].waits_for is Waits.HOLD
    assert "as rank 1 of 1" in standings(sweep.view)["t-0"].reason


def test_the_best_that_comes_last_is_not_stopped() -> None:
    """It goes on in the same process."""
    sweep = Sweep(3)
    sweep.reach(0, t0=0.5, t1=0.4, t2=0.3)
    assert (sweep.running, sweep.job("t-2").incarnation) == (["t-2"], 1)


def test_the_winner_trains_to_its_end_and_the_rest_is_cancelled() -> None:
    """Three of nine reach the second rung, one to the third; it is alone there, and goes on since no other may run."""
    sweep = Sweep(9)
    sweep.reach(0, **{f"t{number}": (5 * number) % 9 / 10 for number in range(9)})
    assert sweep.running == ["t-0", "t-2", "t-4"]
    sweep.reach(1, t0=0.02, t2=0.01, t4=0.03)
    assert sweep.running == ["t-2"]
    sweep.reach(2, t2=0.005)
    assert sweep.running == ["t-2"]
    assert "no trial runs" in sweep.judged("t-2")[-1].reason

    sweep.finish("t-2")
    assert sweep.ended() == {name: "finished" if name == "t-2" else "cancelled" for name in sweep.names}
    assert sweep.judge.state.arrays == {}
    assert "t-2 has finished" in sweep.job("t-8").cancel_reason


def test_where_the_winner_fails_the_next_best_goes_on() -> None:
    """A sweep has no result before one has finished."""
    sweep = Sweep(3)
    sweep.reach(0, t0=0.5, t1=0.4, t2=0.3)
    sweep.finish("t-2", exit_status=1)
    assert (sweep.running, sweep.ended()) == (["t-1"], {"t-2": c.Outcome.FAILED})
    sweep.finish("t-1")
    assert sweep.ended() == {"t-0": c.Outcome.CANCELLED, "t-1": c.Outcome.FINISHED, "t-2": c.Outcome.FAILED}


def test_a_trial_that_has_failed_takes_no_place() -> None:
    """The second best of four goes on in place of the best."""
    sweep = Sweep(5)
    sweep.reach(0, t0=0.1)
    sweep.feed(c.JobChangeRequested(job="t-0", request="on", held=False))
    sweep.settle()
    sweep.finish("t-0", exit_status=1)
    sweep.reach(0, t1=0.4, t2=0.2, t3=0.3)
    assert sweep.running == ["t-2", "t-4"]


def test_a_bad_trial_that_finishes_does_not_end_the_sweep() -> None:
    """It may run on while the system is away. The best one still trains to its end."""
    sweep = Sweep(3)
    sweep.reach(0, t0=0.5, t1=0.1)
    sweep.feed(
        *(c.RungReached(job="t-2", incarnation=1, rung=rung, at=100 * 3**rung, value=0.7) for rung in range(2)),
        sweep.stopped("t-2", 0),
    )
    sweep.settle()
    assert sweep.running == ["t-1"]
    sweep.finish("t-1")
    assert sweep.ended() == {"t-0": c.Outcome.CANCELLED, "t-1": c.Outcome.FINISHED, "t-2": c.Outcome.FINISHED}


def test_a_trial_that_has_finished_is_not_judged_any_more() -> None:
    """Also where it was not good enough when it came, and is now that others have come."""
    sweep = Sweep(3)
    sweep.feed(c.RungReached(job="t-0", incarnation=1, rung=0, at=100, value=0.1), sweep.stopped("t-0", 0))
    sweep.reach(0, t1=0.3, t2=0.2)
    assert sweep.ended() == {"t-0": c.Outcome.FINISHED, "t-1": c.Outcome.CANCELLED, "t-2": c.Outcome.CANCELLED}
    assert [event.goes_on for event in sweep.judged("t-0")] == [False]


def test_the_last_rung_of_a_trial_may_be_known_after_its_end() -> None:
    """Until then it is compared at the highest rung that is known of both."""
    sweep = Sweep(3)
    sweep.reach(0, t0=0.4, t1=0.2)
    sweep.feed(c.RungReached(job="t-2", incarnation=1, rung=0, at=100, value=0.3), sweep.stopped("t-2", 0))
    sweep.settle()
    assert sweep.running == ["t-1"]
    sweep.feed(c.RungReached(job="t-2", incarnation=1, rung=1, at=300, value=0.01))
    sweep.reach(1, t1=0.1)
    assert sweep.job("t-2").trial.values == {0: 0.3, 1: 0.01}
    assert set(sweep.ended()) == {"t-0", "t-1", "t-2"}
    assert sweep.job("t-1").outcome is c.Outcome.CANCELLED


def test_a_metric_that_should_rise_is_best_where_it_is_largest() -> None:
    """By its name, as everywhere."""
    sweep = Sweep(3, metric="val_accuracy")
    sweep.reach(0, t0=0.5, t1=0.9, t2=0.7)
    assert sweep.running == ["t-1"]


def test_a_trial_whose_loss_is_not_finite_never_goes_on() -> None:
    """It counts among those that are there; where all are like that, the sweep ends."""
    sweep = Sweep(3)
    sweep.reach(0, t0=None, t1=None)
    assert sweep.waiting == ["t-0", "t-1"]
    sweep.reach(0, t2=9.0)
    assert sweep.running == ["t-2"]

    bad = Sweep(3)
    bad.reach(0, t0=None, t1=None, t2=None)
    assert set(bad.ended().values()) == {c.Outcome.CANCELLED}


def test_a_trial_that_cannot_be_saved_runs_on_or_is_cancelled() -> None:
    """Of one, two or three the best runs on; of four, the best two. One that was overtaken is cancelled at its rung."""
    sweep = Sweep(5, mode=CheckpointMode.NONE)
    sweep.reach(0, t0=0.5)
    assert sweep.running == sweep.names
    sweep.reach(0, t1=0.3)
    assert sweep.running == ["t-1", "t-2", "t-3", "t-4"]
    assert "it cannot be saved" in sweep.job("t-0").cancel_reason
    sweep.reach(0, t2=0.2)
    assert sweep.running == ["t-2", "t-3", "t-4"]
    sweep.reach(0, t3=0.25)
    assert sweep.running == ["t-2", "t-3", "t-4"]
    sweep.finish("t-2")
    assert sweep.ended()["t-2"] is c.Outcome.FINISHED


def test_its_user_may_let_a_trial_go_on_and_hold_one() -> None:
    """What a user lets go on is not stopped at that rung again, and what a user holds stays held where it would go on."""
    sweep = Sweep(4)
    sweep.reach(0, t0=0.5, t1=0.3)
    sweep.feed(
        c.JobChangeRequested(job="t-0", request="on", held=False),
        c.JobChangeRequested(job="t-1", request="hold", held=True),
    )
    sweep.settle()
    assert sweep.running == ["t-0", "t-2", "t-3"]
    sweep.reach(0, t2=0.4)
    assert sweep.running == ["t-0", "t-3"]
    assert sweep.job("t-1").hold is Hold.USER
    sweep.feed(c.JobChangeRequested(job="t-1", request="release", held=False))
    sweep.settle()
    assert sweep.running == ["t-0", "t-1", "t-3"]


def test_trials_that_are_behind_are_first() -> None:
    """With two at a time, all reach the first rung before the best of them go on."""
    sweep = Sweep(6, array_most=2)
    assert sweep.running == ["t-0", "t-1"]
    sweep.reach(0, t0=0.5, t1=0.1, t2=0.3)
    assert sweep.running == ["t-3", "t-4"]
    sweep.reach(0, t3=0.4)
    assert sweep.running == ["t-4", "t-5"]
    sweep.reach(0, t4=0.6)
    assert sweep.running == ["t-1", "t-5"]
    sweep.reach(0, t5=0.2)
    assert sweep.running == ["t-1", "t-5"]


def test_a_trial_that_runs_past_the_next_rung_while_it_is_stopped_is_judged_at_both() -> None:
    """It may go on once it is good enough at each of them."""
    sweep = Sweep(4)
    sweep.feed(*(c.RungReached(job="t-0", incarnation=1, rung=rung, at=100 * 3**rung, value=0.1) for rung in range(2)))
    sweep.settle()
    sweep.reach(0, t1=0.2, t2=0.3)
    assert sweep.waiting == ["t-0", "t-1", "t-2"]
    assert sweep.job("t-0").trial.passed == 0
    sweep.finish("t-3")
    assert sweep.running == ["t-0"], "one that has finished before any rung is no better"


def test_a_save_that_fails_lets_the_trial_run_on() -> None:
    """It is not asked again at that rung."""
    sweep = Sweep(3)
    sweep.feed(c.RungReached(job="t-0", incarnation=1, rung=0, at=100, value=0.5))
    sweep.tick()
    sweep.deliver(everything=True)
    sweep.fail("t-0", "checkpoint-timeout")
    sweep.fail("t-0", "checkpoint-timeout")
    sweep.settle()
    assert sweep.running == sweep.names
    sweep.reach(0, t1=0.4)
    assert sweep.running == ["t-0", "t-2"]


@pytest.mark.parametrize("delay", [0, 3, 6])
def test_reports_that_come_at_once_do_not_end_a_sweep_without_a_word(delay: int) -> None:
    """Of several rungs of one trial one is decided at a time, and what is decided in vain is decided again."""
    sweep = Sweep(2, rungs=Rungs(first=100, factor=2))
    sweep._delay = lambda: delay
    for job, rungs in (("t-0", 3), ("t-1", 2)):
        sweep.feed(
            *(c.RungReached(job=job, incarnation=1, rung=rung, at=100 * 2**rung, value=0.1) for rung in range(rungs))
        )
    for _ in range(3):
        sweep.settle()
    assert sweep.running == ["t-0"]


def test_a_hold_that_overtakes_a_judgement_does_not_stop_the_sweep() -> None:
    """The judgement does not count then, and the one that waits is the best of those that may go on."""
    sweep = Sweep(2)
    sweep.reach(0, t0=0.5)
    sweep._delay = lambda: 3
    sweep.feed(
        c.RungReached(job="t-1", incarnation=1, rung=0, at=100, value=0.6),
        c.JobChangeRequested(job="t-1", request="user", held=True),
    )
    for _ in range(3):
        sweep.settle()
    assert sweep.running == ["t-0"]
    assert sweep.job("t-1").hold is Hold.USER


def test_other_jobs_of_an_array_do_not_stop_its_trials() -> None:
    """Neither one that is no trial and ends last, nor one that comes after a trial that waits."""
    sweep = Sweep(2)
    sweep.feed(submitted("t-2", 100, array="t"))
    sweep.names.append("t-2")
    sweep.settle()
    sweep.reach(0, t0=0.5, t1=0.4)
    assert sweep.running == ["t-1", "t-2"]

    behind = Sweep(1)
    behind.feed(submitted("t-1", 100, array="t", rungs=Rungs(first=100), after=("t-0",)))
    behind.names.append("t-1")
    behind.reach(0, t0=0.5)
    assert behind.running == ["t-0"]


def test_a_second_sweep_of_a_name_knows_nothing_of_the_first() -> None:
    """Its trials are compared with each other alone."""
    sweep = Sweep(3)
    sweep.reach(0, t0=0.5, t1=0.4, t2=0.1)
    sweep.finish("t-2")
    sweep.names = [f"t-{number}" for number in range(3, 5)]
    sweep.feed(*(submitted(name, 100, array="t", rungs=Rungs(first=100)) for name in sweep.names))
    sweep.settle()
    sweep.reach(0, t3=0.6, t4=0.5)
    assert sweep.running == ["t-4"]
    assert "rank 1 of 2" in sweep.judged("t-4")[-1].reason


def test_a_trial_that_saves_when_it_is_stopped_and_has_not_yet_is_not_held() -> None:
    """A stop could lose its work: it runs on or is cancelled, as one that cannot be saved."""
    sweep = Sweep(3, mode=CheckpointMode.ON_STOP)
    sweep.reach(0, t0=0.5, t1=0.4)
    assert sweep.running == ["t-1", "t-2"]


def test_a_trial_that_is_being_saved_has_its_turn_in_its_array() -> None:
    """No other takes it before it has left its place."""
    sweep = Sweep(4, array_most=2)
    sweep.reach(0, t0=0.1)
    for job in ("t-1", "t-2"):
        sweep.feed(c.RungReached(job=job, incarnation=1, rung=0, at=100, value=0.5))
        sweep.deliver(everything=True)
    assert [sweep.job(name).hold for name in ("t-0", "t-3")] == [Hold.RUNG, Hold.OTHERS]


def test_each_trial_is_cancelled_once() -> None:
    """However many are left behind, and each of whose ends is an event."""
    sweep = Sweep(9)
    sweep.reach(0, **{f"t{number}": None for number in range(9)})
    requests = [event.job for event in sweep.decided if isinstance(event, c.JobCancelRequested)]
    assert sorted(requests) == sweep.names


def test_a_release_after_a_hold_lets_a_trial_go_on() -> None:
    """It is not judged at that rung again."""
    sweep = Sweep(3)
    sweep.reach(0, t0=0.5)
    for held in (True, False):
        sweep.feed(c.JobChangeRequested(job="t-0", request=f"user-{held}", held=held))
        sweep.settle()
    assert sweep.running == sweep.names


def test_a_restart_decides_in_the_same_order() -> None:
    """From a snapshot, the next of an array is the one that it would have been, and suspensions are in the same order."""
    sweep = Sweep(4, array_most=1)
    sweep.reach(0, t0=0.5, t1=0.4)
    for job in ("t-1", "t-0"):
        sweep.feed(c.JobChangeRequested(job=job, request=f"on-{job}", held=False))
        sweep.settle()
    view = ClusterView.restore(sweep.view.snapshot())
    placer, judge = (msgspec.json.encode(one.state) for one in sweep.deciders)
    restored = (
        Placer(msgspec.json.decode(placer, type=Placer.state_type)),
        TrialJudge(msgspec.json.decode(judge, type=TrialJudge.state_type)),
    )
    sweep.restore(view, restored)
    sweep.finish("t-2")
    assert sweep.running == ["t-0"]


ORDERS = st.permutations(range(9))
WORTH = st.lists(st.none() | st.floats(0, 1), min_size=9, max_size=9)


@settings(max_examples=60)
@given(ORDERS, WORTH, st.integers(0, 6), st.sampled_from([None, 1, 3]))
def test_every_sweep_ends(order: list[int], worth: list[float | None], delay: int, most: int | None) -> None:
    """In whatever order trials reach their rungs, however late decisions are read back: one finishes if any can."""
    sweep = Sweep(9, array_most=most)
    sweep._delay = lambda: delay
    reached: dict[str, int] = {}
    for _ in range(200):
        at = next((name for number in order if (name := f"t-{number}") in sweep.running), None)
        if at is None:
            break
        rung = reached[at] = reached.get(at, -1) + 1
        if rung == 3:
            sweep.finish(at)
        else:
            sweep.reach(rung, **{f"t{at[2:]}": worth[int(at[2:])]})
    ended = sweep.ended()

    assert list(ended) == sweep.names
    finished = [name for name, outcome in ended.items() if outcome is c.Outcome.FINISHED]
    assert bool(finished) == any(value is not None for value in worth)
    assert all(worth[int(name[2:])] is not None for name in finished)


def test_jobs_without_rungs_are_left_alone() -> None:
    """And so is one whose array is none."""
    sweep = Sweep(3, rungs=None)
    sweep.reach(0, t0=0.5, t1=0.4, t2=0.3)
    assert sweep.running == sweep.names
    job: Job = sweep.job("t-0")
    assert job.hold is Hold.NONE

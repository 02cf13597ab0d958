"""Preemptions and their costs, from a log that is written by hand."""

from __future__ import annotations

import csv
import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, PreemptionRule
from steepest.events.received import Received
from steepest.policies.pickyman.time_model import TimeModel, TrainingSetting, fit
from steepest.read_models.preemptions_and_scalings import PreemptionTimeline
from steepest_lab.demo.preemption.streaming import RECIPES, workload
from steepest_lab.demo.workload import DemoWorkload
from steepest_lab.reproduce.kept_runs import Records
from steepest_lab.reproduce.pickyman import real_run
from steepest_lab.reproduce.pickyman.jobs import ENOUGH
from steepest_lab.reproduce.pickyman.outcomes import overheads, predictions, waiting
from steepest_lab.reproduce.pickyman.real_report import FILES, report, verdicts, write
from steepest_lab.reproduce.pickyman.real_run import COMPARED, SLICES, RealPart, RealPreemption, reproduced
from steepest_lab.reproduce.pickyman.trainings import (
    CROWD,
    NODES,
    OTHERS,
    PROFILED,
    StreamedSetting,
    crowded_workload,
    predicted_workload,
    sliced_workload,
)
from steepest_lab.reproduce.verdict import Agreement

SPEC = c.JobSpec(command=("x",), epochs=4, data_bytes=1_000, batch_size=8, model="m")
BOTH = ("a", "b")


def suspension(plan: str, job: str) -> c.TransitionPlanned:
    """A plan that suspends a job on n1."""
    return c.TransitionPlanned(
        plan=plan, job=job, incarnation=1, kind=c.Transition.SUSPEND, sources=("n1",), because=c.Because(rule="r")
    )


def overhead(
    job: str, kind: c.Overhead, predicted_ms: int | None, measured_ms: int
) -> tuple[c.OverheadPredicted, c.OverheadMeasured]:
    """What was predicted and measured of a plan."""
    return (
        c.OverheadPredicted(plan="p", job=job, incarnation=1, kind=kind, predicted_ms=predicted_ms),
        c.OverheadMeasured(
            plan="p", job=job, incarnation=1, kind=kind, predicted_ms=predicted_ms, measured_ms=measured_ms
        ),
    )


def placed(job: str, incarnation: int = 1) -> c.JobPlaced:
    """It is placed on n1."""
    return c.JobPlaced(plan=f"place-{job}", attempt=1, job=job, incarnation=incarnation, node="n1")


def test_a_preemption_has_its_victims_and_what_both_halves_took() -> None:
    """Suspensions and resumptions of all victims are summed up; those of other jobs are not."""
    story = PreemptionTimeline()
    events: list[c.ClusterEvent] = [
        suspension("s1", "a"),
        suspension("s2", "b"),
        c.PlacementPlanned(
            plan="place-u", job="u", incarnation=1, nodes=("n1",), after=("s1", "s2"), because=c.Because(rule="r")
        ),
        *overhead("a", c.Overhead.SUSPENSION, 1_000, 1_100),
        *overhead("b", c.Overhead.SUSPENSION, None, 300),
        c.JobSuspended(plan="s1", job="a", step=7, steps_lost=2),
        placed("a", 2),
        *overhead("a", c.Overhead.RESUMPTION, 2_000, 1_900),
        *overhead("z", c.Overhead.SUSPENSION, 9_000, 9_000),
    ]
    for event in events:
        story.note(event)
    (found,) = story.summaries

    assert msgspec.to_builtins(found) == {
        "plan": "place-u",
        "for": "u",
        "victims": ["a", "b"],
        "predicted_overhead_ms": 3_000,
        "measured_overhead_ms": 3_300,
        "steps_lost": 2,
        "resumed": 1,
    }


def test_a_placement_that_waits_for_nobody_suspended_is_no_preemption() -> None:
    """It may wait for moves."""
    story = PreemptionTimeline()
    plan = c.PlacementPlanned(
        plan="p", job="u", incarnation=1, nodes=("n1",), after=("m",), because=c.Because(rule="r")
    )
    story.note(plan)
    assert story.summaries == []


def log() -> list[Received[c.ClusterEvent]]:
    """Two jobs on a node for one; a is suspended for b."""
    span = c.PredictedSpan(9_000, 8_000, 10_000)
    early = c.RunTimePredicted(job="a", incarnation=0, method=c.PredictionMethod.HISTORY, total=span)
    said = msgspec.structs.replace(early, method=c.PredictionMethod.TIME_MODEL, profiles=4)
    late = msgspec.structs.replace(said, total=c.PredictedSpan(1, 1, 1))
    timed: list[tuple[int, c.ClusterEvent]] = [
        (0, c.JobSubmitted(job="a", request="a", spec=SPEC)),
        (0, early),
        (500, said),
        (1_000, placed("a")),
        (1_500, late),
        (2_000, c.JobSubmitted(job="b", request="b", spec=SPEC)),
        (4_000, c.JobSuspended(plan="s", job="a", step=3, steps_lost=1)),
        (4_000, placed("b")),
        (7_000, c.JobEnded(job="b", outcome=c.Outcome.FINISHED)),
        (7_500, placed("a", 2)),
        *((8_000, event) for event in overhead("a", c.Overhead.RESUMPTION, 400, 500)),
        (11_000, c.JobEnded(job="a", outcome=c.Outcome.FINISHED)),
    ]
    return [
        Received(event=event, topic="cluster", partition=0, offset=offset, at_ms=at_ms)
        for offset, (at_ms, event) in enumerate(timed)
    ]


def test_predictions_are_those_that_stood_before_the_job_was_placed() -> None:
    """Later ones know more, and do not count."""
    found = {one.job: one for one in predictions(log())}
    assert (found["a"].predicted_ms, found["a"].measured_ms, found["a"].method) == (9_000, 10_000, "time-model")
    assert found["a"].error == -0.1
    assert (found["b"].predicted_ms, found["b"].error, found["b"].method) == (None, None, "unknown")


def test_all_waiting_counts_that_of_the_suspended_too() -> None:
    """Job a waited 1 s and then 3.5 s, b 2 s."""
    found = waiting("fifo", 0, log(), BOTH)
    assert found.mean_waiting_s == (1.0 + 3.5 + 2.0) / 2
    assert (found.makespan_s, found.suspensions, found.steps_lost) == (11.0, 1, 1)


def test_waiting_is_that_of_the_jobs_compared_and_not_of_those_profiled_before_them() -> None:
    """Job b alone waited 2 s, and was over 5 s after its submission; it was never suspended."""
    found = waiting("fifo", 0, log(), ["b"])
    assert (found.jobs, found.mean_waiting_s, found.makespan_s) == (1, 2.0, 5.0)
    assert (found.suspensions, found.steps_lost) == (0, 0)


def test_the_report_has_a_row_for_everything_and_a_verdict_on_each_claim(tmp_path: Path) -> None:
    """Tables that programs read, and a page."""
    runs = [msgspec.structs.replace(waiting("x", 0, log(), BOTH), policy=policy) for policy in COMPARED]
    found = RealPreemption(predictions=predictions(log()), overheads=overheads(SLICES, "r", log()), waiting=runs)
    write(found, tmp_path)
    tables = {
        name: list(csv.DictReader((tmp_path / name).read_text().splitlines()))
        for name in FILES
        if name.endswith(".csv")
    }

    assert [row["error"] for row in tables["predictions.csv"]] == ["", "-0.1"]
    assert [row["error"] for row in tables["overheads.csv"]] == ["-0.2"]
    assert len(tables["waiting.csv"]) == len(COMPARED)
    assert [one.judged for one in verdicts(found)] == [Agreement.WORSE] * 3 + [Agreement.INCONCLUSIVE] * 4
    assert (tmp_path / "report.md").read_text() == report(found).markdown


def test_the_page_has_a_picture_of_each_experiment_that_has_run(tmp_path: Path) -> None:
    """Predicted beside measured, and waiting by policy."""
    runs = [msgspec.structs.replace(waiting("x", 0, log(), BOTH), policy=policy) for policy in COMPARED]
    found = RealPreemption(predictions=predictions(log()), overheads=overheads(SLICES, "r", log()), waiting=runs)
    write(found, tmp_path / "all")
    write(RealPreemption(waiting=runs), tmp_path / "waiting")
    write(RealPreemption(), tmp_path / "none")
    pages = {name: (tmp_path / name / "report.html").read_text() for name in ("all", "waiting", "none")}

    assert {name: page.count("<svg") for name, page in pages.items()} == {"all": 3, "waiting": 1, "none": 0}
    assert ">1 run times</text>" in pages["all"]
    assert ">1 resumptions</text>" in pages["all"]
    assert all(f">{policy}</text>" in pages["waiting"] for policy in COMPARED)
    assert 'class="worse">worse<' in pages["all"]


def test_overheads_of_the_comparison_are_in_the_table_and_are_not_judged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A row for each source and kind, with the errors of those that were predicted: 400 ms of 500 ms under a policy."""

    def ran(_: DemoWorkload, pool: PoolParameters, *__: object, **___: object) -> Records:
        extra: list[c.ClusterEvent] = []
        if pool.pickyman.rule is PreemptionRule.ROUND_ROBIN:
            extra += overhead("a", c.Overhead.SUSPENSION, None, 3_000)
            extra += overhead("a", c.Overhead.SUSPENSION, 1_020, 1_000)
        more = [Received(event=event, topic="cluster", partition=0, offset=99, at_ms=0) for event in extra]
        return [*log(), *more]

    monkeypatch.setattr(real_run, "run_once", ran)
    monkeypatch.setattr(real_run, "OVERHEADS_WANTED", 2)
    found = reproduced(1, tmp_path, lambda _: None, [RealPart.OVERHEADS, RealPart.CLUSTER])
    rows = [
        line for line in report(found).markdown.splitlines() if "| resumption |" in line or "| suspension |" in line
    ]

    assert rows == [
        "| time slices | resumption | 1 | 0 | 0.4 s | 0.5 s | 20.0 % | 0.1 s |",
        "| time slices | suspension | 1 | 1 | 1.0 s | 1.0 s | 2.0 % | 0.0 s |",
        *(f"| {name} | resumption | 1 | 0 | 0.4 s | 0.5 s | 20.0 % | 0.1 s |" for name in COMPARED),
    ]
    (judged,) = [one for one in verdicts(found) if "overheads" in one.claim]
    assert judged.measured == "11.0 % over 2 (1 more before anything was known)"


@pytest.mark.parametrize(
    ("ours", "judged"),
    [
        ((1.0, 2.0, 3.0), Agreement.WITHIN),
        ((1.0, 2.0, 30.0), Agreement.INCONCLUSIVE),
        ((21.0, 22.0, 23.0), Agreement.WORSE),
    ],
)
def test_waiting_is_compared_in_pairs(ours: Sequence[float], judged: Agreement) -> None:
    """A shorter mean alone is no gain: the interval of the differences must not contain zero."""
    one = waiting("x", 0, log(), BOTH)
    runs = [
        msgspec.structs.replace(one, policy=policy, repetition=number, mean_waiting_s=waited)
        for policy, all_of in (("fifo", (11.0, 12.0, 13.0)), ("pickyman", ours))
        for number, waited in enumerate(all_of)
    ]
    (fifo,) = [
        row for row in verdicts(RealPreemption(waiting=runs)) if row.claim == "waiting is shorter than under fifo"
    ]

    assert fifo.judged == judged
    assert "against 12.0 s, " in fifo.measured


@pytest.mark.parametrize(
    ("ours", "judged"),
    [
        ((110.0, 120.0, 130.0), Agreement.WITHIN),
        ((101.0, 112.0, 120.0), Agreement.WITHIN),
        ((109.0, 121.0, 133.0), Agreement.INCONCLUSIVE),
        ((112.0, 123.0, 132.0), Agreement.WORSE),
    ],
)
def test_makespans_are_compared_in_pairs(ours: Sequence[float], judged: Agreement) -> None:
    """The same is no longer; a makespan that is longer in the mean alone is neither shown nor refuted."""
    one = waiting("x", 0, log(), BOTH)
    runs = [
        msgspec.structs.replace(one, policy=policy, repetition=number, makespan_s=makespan)
        for policy, all_of in (("fifo", (110.0, 120.0, 130.0)), ("pickyman", ours))
        for number, makespan in enumerate(all_of)
    ]
    found = {row.claim: row for row in verdicts(RealPreemption(waiting=runs))}

    fifo = found["the makespan is not longer than under fifo (a bar of this project)"]
    assert fifo.judged == judged
    assert "against 120.0 s, " in fifo.measured
    assert found["the makespan is not longer than under srtf (a bar of this project)"].judged is Agreement.UNMEASURED


def test_nothing_measured_is_no_verdict() -> None:
    """Rather than a claim that holds of nothing."""
    empty = RealPreemption(predictions=[], overheads=[], waiting=[])
    assert {one.judged for one in verdicts(empty)} == {Agreement.UNMEASURED}
    assert "unmeasured" in report(empty).markdown


def test_an_error_of_a_profiled_epoch_does_not_grow_in_predictions() -> None:
    """Four settings of which two are nearly alike in a term would determine its parameter from their noise."""

    def of(setting: StreamedSetting) -> TrainingSetting:
        return TrainingSetting(setting.images, setting.batch, setting.workers)

    true = TimeModel((4_500.0, 0.3, 11.0, 1.5), 0.0, (), ())
    exact = {setting: true.epoch_ms(of(setting)) for setting in PROFILED}
    for wrong in PROFILED:
        measured = [(of(setting), epoch_ms * (1.05 if setting == wrong else 1)) for setting, epoch_ms in exact.items()]
        fitted = fit(measured)
        assert fitted is not None
        errors = [fitted.epoch_ms(of(setting)) / true.epoch_ms(of(setting)) - 1 for setting in OTHERS]
        assert max(map(abs, errors)) < 0.1
        assert statistics.fmean(map(abs, errors)) < 0.05


def every_workload() -> list[DemoWorkload]:
    """Of the demo and of the experiments."""
    return [workload(3), predicted_workload(3, PROFILED, OTHERS), crowded_workload(3), sliced_workload(3, 8)]


def test_the_workloads_fit_their_nodes() -> None:
    """Each job fits on the idle nodes; the same seed gives the same workload, and other settings than the profiled ones."""
    assert not set(PROFILED) & set(OTHERS)
    assert all(setting.workers <= NODES for setting in (*PROFILED, *OTHERS))
    for given, again in zip(every_workload(), every_workload(), strict=True):
        assert given == again
        room = sum((node.capacity for node in given.nodes), Resources())
        for arrival in given.arrivals:
            counts = zip(arrival.spec.all_roles, arrival.spec.counts(), strict=True)
            asked = sum((role.requests.times(count) for role, count in counts), Resources())
            assert asked.fits(room), arrival.job
    assert len(workload(3).arrivals) == len(RECIPES)


def test_the_crowd_comes_once_enough_of_its_model_are_profiled() -> None:
    """Four in different sizes; each of the crowd knows that they end before it."""
    given = crowded_workload(3).arrivals
    first = [one for one in given if not one.after]
    assert (len(first), len({one.spec.data_bytes for one in first})) == (ENOUGH, 3)
    crowd = given[len(first) :]
    assert len(crowd) == CROWD
    assert {one.after for one in crowd} == {len(first)}
    assert crowd[0].at_s == 0.0

"""Preemption in virtual time: what a suspension and a start cost, and who gives way, on jobs of which the end is known."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled

from steepest.errors import InputError
from steepest.events.common import Resources
from steepest_lab.commands.reproduce import reproduce
from steepest_lab.reproduce.pickyman.experiment import (
    GRACE_S,
    LOW_LOAD,
    OURS,
    RULES,
    PreemptionRow,
    PreemptionTask,
    drawn,
    rows,
    run,
    tasks,
)
from steepest_lab.reproduce.pickyman.jobs import LAUNCH_S, PreemptibleJob
from steepest_lab.reproduce.pickyman.report import FILES, write
from steepest_lab.reproduce.pickyman.simulate import OverheadSeen, PreemptionResult, simulate_preemption
from steepest_lab.sim.workload import SimJob

JOBS = st.lists(
    st.tuples(st.integers(0, 2_000), st.sampled_from([1, 1, 2, 4]), st.integers(30, 3_000), st.integers(10, 600)),
    min_size=1,
    max_size=14,
)


def job(
    name: str, submit_s: float, gpus: int, work_s: float, epoch_s: float, *, load_gib: float = 10.0
) -> PreemptibleJob:
    """A job that is predicted exactly."""
    return PreemptibleJob(
        name=name,
        model=name,
        submit_s=submit_s,
        gpus=gpus,
        work_s=work_s,
        epoch_s=min(epoch_s, work_s),
        load_gib=load_gib,
        luck=0.0,
        room_from=[],
    )


def ran(rule: str, *jobs: PreemptibleJob, gpus: int = 1) -> PreemptionResult:
    """What the jobs come to, with a storage of 1 GiB a second."""
    return simulate_preemption(sorted(jobs, key=lambda one: one.submit_s), gpus, rule, gib_s=1.0)


def test_a_start_launches_and_reads() -> None:
    """5 s and 10 GiB at 1 GiB/s, then the work."""
    result = ran("fifo", job("a", 0, 1, 100, 50))
    assert result.completions_s[0] == pytest.approx(LAUNCH_S + 10 + 100)
    assert result.waits_s[0] == 0


def test_starts_at_the_same_time_share_the_bandwidth() -> None:
    """Each of two reads at half of it."""
    result = ran("fifo", job("a", 0, 1, 100, 50), job("b", 0, 1, 100, 50), gpus=2)
    assert all(one == pytest.approx(LAUNCH_S + 20 + 100) for one in result.completions_s)


def test_a_suspension_waits_for_the_end_of_the_epoch_and_its_second_wait_counts() -> None:
    """The long job trains from 15 s on, in epochs of 100 s; the short one comes at 90 s and starts at 115 s."""
    result = ran("pickyman", job("long", 0, 1, 10_000, 100), job("short", 90, 1, 50, 50))
    assert result.suspensions == 1
    short_wait, long_wait = result.waits_s[1], result.waits_s[0]
    assert short_wait == pytest.approx(25)
    assert long_wait == pytest.approx(LAUNCH_S + 10 + 50)
    suspension, resumption = result.overheads
    assert suspension.predicted_s == pytest.approx(25)
    assert suspension.took_s == pytest.approx(25)
    assert resumption.took_s == pytest.approx(LAUNCH_S + 10)
    assert result.completions_s[0] == pytest.approx(10_000 + 2 * (LAUNCH_S + 10) + long_wait)


def test_what_a_preemption_costs_decides_for_pickyman_and_not_for_srtf() -> None:
    """The running job has 85 s left when one of 60 s comes: to start twice costs more than it saves."""
    jobs = (("a", 0, 1, 170, 170), ("b", 100, 1, 60, 60))
    assert ran("pickyman", *(job(*one) for one in jobs)).suspensions == 0
    assert ran("srtf", *(job(*one) for one in (("a", 0, 1, 170, 20), jobs[1]))).suspensions == 1


@pytest.mark.parametrize("rule", RULES)
@given(asked=JOBS)
@settings(deadline=None, max_examples=scaled(25))
def test_every_job_ends_and_no_time_is_lost_or_doubled(rule: str, asked: list[tuple[int, int, int, int]]) -> None:
    """From its submission to its end a job waits, starts or trains; its training takes as long as it is."""
    jobs = [job(f"j{number}", *one) for number, one in enumerate(sorted(asked))]
    result = simulate_preemption(jobs, 4, rule, gib_s=1.0)
    for one, waited, completion in zip(jobs, result.waits_s, result.completions_s, strict=True):
        assert one.end_s is not None
        least = one.work_s + one.starts * (LAUNCH_S + one.load_gib)
        assert completion - waited >= least - 1e-6
        assert completion - waited == pytest.approx(one.attained_s, abs=1e-6)
        assert one.starts == one.suspensions + 1


def trace(folder: Path) -> Path:
    """A data folder with both traces, each of a few jobs."""
    philly = folder / "pollux" / "traces" / "philly.csv.gz"
    muri = folder / "muri" / "trace3.csv"
    for path in (philly, muri):
        path.parent.mkdir(parents=True)

    lines = "\n".join(f"2017-10-0{1 + n % 7} 0{n}:00:00,{600 * (n + 1)},{1 + n % 4},0,c" for n in range(8))
    philly.write_bytes(gzip.compress(f"timestamp,duration,num_gpus,gpu_time,cluster\n{lines}\n".encode()))
    rows_of = "\n".join(f"{n},{1 + n % 4},{n},{100 * (n + 1)},vgg16,1000" for n in range(8))
    muri.write_text(f"job_id,num_gpu,submit_time,iterations,model_name,iteration_time\n{rows_of}\n")
    return folder


def test_a_workload_comes_to_its_load_and_is_the_same_again() -> None:
    """Twice the load is half the time between arrivals; jobs that are too large are left out."""
    sims = [
        SimJob(name=f"s{n}", submit_s=0, requests=Resources(gpus=1 + n % 9), work_s=100.0 * (n + 1)) for n in range(20)
    ]
    one, two = drawn(sims, 8, 0.5, 3, 50), drawn(sims, 8, 1.0, 3, 50)
    assert one == drawn(sims, 8, 0.5, 3, 50)
    assert one[-1].submit_s == pytest.approx(2 * two[-1].submit_s)
    assert max(each.gpus for each in one) <= 8


def test_a_report_has_a_row_for_every_baseline(tmp_path: Path) -> None:
    """And its files can be read by programs."""
    folder = trace(tmp_path / "data")
    todo = [PreemptionTask("muri", str(folder), 8, 1.2, seed) for seed in (0, 1)]
    results = [run(task) for task in todo]
    found = rows(todo, results)
    assert [row.baseline for row in found] == ["fifo", "sjf", "srtf", "tiresias", "round-robin"]
    assert all(row.verdict in {"within", "worse", "inconclusive"} for row in found)
    write(todo, results, found, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(FILES)
    with (tmp_path / "out" / "results.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(found)


def outcome(makespan_s: float, wait_s: float = 10.0, overheads: Sequence[OverheadSeen] = ()) -> PreemptionResult:
    """Of a run with one job."""
    return PreemptionResult(
        waits_s=[wait_s], completions_s=[makespan_s], makespan_s=makespan_s, suspensions=0, overheads=overheads
    )


def compared(
    ours: Sequence[PreemptionResult], theirs: Sequence[PreemptionResult], load: float = 1.2
) -> Sequence[PreemptionRow]:
    """The rows of one setting, with a repetition for each pair; all baselines are the same."""
    todo = [PreemptionTask("muri", "", 8, load, seed) for seed in range(len(ours))]
    return rows(todo, [dict.fromkeys(RULES, two) | {OURS: one} for one, two in zip(ours, theirs, strict=True)])


@pytest.mark.parametrize(
    ("ours", "verdict", "shown"),
    [
        ((100, 200, 300), "within", "| +0.0 |"),
        ((99, 197, 296), "within", "| −1.3 |"),
        ((90, 230, 300), "inconclusive", "| *+1.7* |"),
        ((101, 203, 304), "worse", "| **+1.3** |"),
    ],
)
def test_makespans_are_judged_by_pairs(tmp_path: Path, ours: Sequence[float], verdict: str, shown: str) -> None:
    """The same is no longer; otherwise the interval of the changes must not contain zero."""
    found = compared([outcome(one) for one in ours], [outcome(one) for one in (100, 200, 300)])

    assert [row.makespan_verdict for row in found] == [verdict] * (len(RULES) - 1)
    assert all(row.makespan_low <= row.makespan_change <= row.makespan_high for row in found)
    write([], [], found, tmp_path)
    report = (tmp_path / "report.md").read_text()
    assert shown in report
    assert f"no makespan gets longer is a bar of this project: 5 {verdict}." in report


@pytest.mark.parametrize(("more_s", "verdict"), [(0.9, "within"), (1.1, "worse")])
def test_at_low_load_there_is_a_second_of_grace(more_s: float, verdict: str) -> None:
    """Two per cent of hardly any waiting would be a fraction of it."""
    found = compared([outcome(100, 0.1 * 1.02 + more_s * GRACE_S)], [outcome(100, 0.1)], LOW_LOAD)

    assert {row.verdict for row in found} == {verdict}


def test_a_page_has_pictures_of_waiting_and_of_overheads(tmp_path: Path) -> None:
    """With a line for every rule, the same bytes each time, and nothing that asks for anything."""
    found = compared([outcome(100), outcome(200)], [outcome(100), outcome(200)])
    seen = [
        OverheadSeen("a", kind, predicted_s, 40.0) for kind in ("suspension", "resumption") for predicted_s in (0.0, 30)
    ]
    pages = []
    for overheads in (seen, seen, []):
        todo = [PreemptionTask("muri", "", 8, 1.2, 0)]
        write(todo, [{OURS: outcome(100, overheads=overheads)}], found, tmp_path)
        pages.append((tmp_path / "report.html").read_text())

    assert [page.count("<svg") for page in pages] == [2, 2, 1]
    assert pages[0] == pages[1]
    assert all(f">{rule}</text>" in pages[0] for rule in RULES)
    assert ">2 suspensions, mean error 62.5 %</text>" in pages[0]
    assert 'class="within"' in pages[0]
    assert not re.search(r"<script|<link|<img|@import|url\((?!#)|src=", pages[0])


def test_a_trace_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the option that names the folder."""
    with pytest.raises(InputError, match=r"philly\.csv\.gz"):
        tasks(tmp_path, 1)
    result = CliRunner().invoke(reproduce, ["pickyman"], env={"STEEPEST_DATA": ""})
    assert result.exit_code == 2
    assert "--data" in result.output

"""``steepest simulate``: its table, its JSON, its files, and that the same call gives the same bytes."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.harness.system.running_system import STEEPEST

from steepest.cli.main import main
from steepest_lab.commands.simulate_summary import show_results
from steepest_lab.sim.policies import names
from steepest_lab.sim.result import JobResult, SimulationResult

KEYS = (
    "policy seed jobs finished mean_jct median_jct p90_jct p99_jct mean_t90 left_out late_share late_worst mean_jct_change "
    "median_jct_change makespan_change mean_t90_change mean_wait makespan "
    "utilisation migrations preemptions deadlocked scale_ups scale_downs partial_gang_ms_max events wall_seconds"
)
SMALL = ("--workload", "thesis:flowcon-3", "--cluster", "2x8cpu")
RECORDING = Path(__file__).parents[2] / "golden" / "moves"
T_OF_TWO = 12.7062
"""The 97.5 % quantile of Student's t with one degree of freedom."""


def run(*arguments: object) -> Result:
    """The command's output and exit status."""
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)], prog_name="steepest", env={"COLUMNS": "200"})


def objects(result: Result) -> list[dict[str, Any]]:
    """What was printed, with nothing else on standard output."""
    assert (result.exit_code, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_the_json_of_a_run_has_these_keys_in_this_order() -> None:
    """One object a run, in the order of the policies and, of each, of the seeds."""
    printed = objects(run(*SMALL, "--policy", "spread,procon,srtf", "--seed", "3,0-1", "--json"))

    assert [list(one) for one in printed] == [KEYS.split()] * 9
    assert [one["policy"] for one in printed] == ["spread"] * 3 + ["procon"] * 3 + ["srtf"] * 3
    assert [one["seed"] for one in printed] == [3, 0, 1] * 3
    assert all(one["finished"] == one["jobs"] == 3 for one in printed)


def test_a_pool_that_blocks_lets_no_small_jobs_pass_a_large_one(tmp_path: Path) -> None:
    """A job of all nodes starts before jobs that came later; the baselines keep their own rules."""
    jobs = [{"name": f"small-{n}", "submit_s": 10 * n, "requests": {"gpus": 1}, "work_s": 200} for n in range(100)]
    large = {"name": "large", "submit_s": 300, "requests": {"gpus": 8}, "replicas": 2, "work_s": 200}
    workload = tmp_path / "jobs.jsonl"
    workload.write_text("".join(json.dumps(job) + "\n" for job in [*jobs[:31], large, *jobs[31:]]))
    arguments = ("--workload", workload, "--cluster", "2x8gpu", "--policy", "spread,las")

    def starts(*options: str) -> dict[str, float]:
        """When the large job starts under each policy."""
        assert run(*arguments, *options, "--out", tmp_path / "out").exit_code == 0
        rows = csv.DictReader((tmp_path / "out" / "jobs.csv").read_text().splitlines())
        return {row["policy"]: float(row["start_s"]) for row in rows if row["name"] == "large"}

    free, blocking = starts(), starts("--blocking")
    assert blocking["spread"] < 600 < free["spread"]
    assert blocking["las"] == free["las"]
    refused = run("--from", RECORDING, "--policy", "spread", "--blocking")
    assert "a recording brings its own jobs, nodes and rules" in refused.stderr


def test_the_json_says_what_became_of_gangs() -> None:
    """Those of the default scheduler wait in parts; DRAGON's start whole, and are scaled."""
    policies = "dragon,dragon-paper-era,dragon-fixed,kube-default"
    gangs = ("--workload", "gangs:1:1.5", "--cluster", "1x4gpu", "--policy", policies)
    *dragons, default = objects(run(*gangs, "--json"))

    assert [one["policy"] for one in (*dragons, default)] == policies.split(",")
    for one in dragons:
        assert (one["finished"], one["deadlocked"], one["partial_gang_ms_max"]) == (one["jobs"], 0, 0)
        assert one["scale_ups"] > 0
        assert one["scale_downs"] > 0
        assert 0.5 < one["utilisation"] <= 1
    assert (default["scale_ups"], default["scale_downs"]) == (0, 0)
    assert default["finished"] + default["deadlocked"] <= default["jobs"]
    assert default["deadlocked"] > 0
    assert default["partial_gang_ms_max"] > 0


def test_a_policy_or_seed_named_twice_runs_once() -> None:
    """Ranges may overlap."""
    printed = objects(run(*SMALL, "--policy", "srtf, srtf", "--seed", "0-2,1", "--json"))

    assert len(printed) == 3


def test_a_table_has_a_line_a_policy() -> None:
    """With one seed there is nothing to vary; what was assumed stands on standard error."""
    result = run(*SMALL, "--policy", "spread,srtf")
    header, spread, srtf = result.stdout.splitlines()

    assert header.split()[:4] == ["POLICY", "FINISHED", "MEAN", "JCT"]
    assert spread.split()[:2] == ["spread", "3/3"]
    assert srtf.split()[:2] == ["srtf", "3/3"]
    assert "±" not in result.stdout
    assert "assumed (spread): progress is proportional to the CPU that a job gets" in result.stderr
    assert "assumed (srtf): other resources than CPU are always enough" in result.stderr


def test_policies_are_compared_within_their_kind() -> None:
    """Against the first of it; across kinds there is no figure, and it is said why."""
    result = run(*SMALL, "--policy", "spread,srtf,procon,fifo")
    *lines, _, title, _, first, second = result.stdout.splitlines()
    means = [float(line.split()[2].replace(",", "")) for line in lines[1:]]

    assert title == "Change:"
    assert first.split()[:4] == ["procon", "spread", f"{100 * (means[2] / means[0] - 1):+.1f}", "%"]
    assert second.split()[:4] == ["fifo", "srtf", f"{100 * (means[3] / means[1] - 1):+.1f}", "%"]
    assert means[3] > means[1]
    assert result.stderr.startswith(
        "compare within a kind, not across (docs/simulate.md): in a pool: spread, procon; by allocation: srtf, fifo\n"
    )


def test_a_table_of_several_seeds_shows_how_much_they_differ(tmp_path: Path) -> None:
    """The mean over the seeds, and their standard deviation; changes are taken seed by seed, with an interval."""
    call = ("--workload", "thesis:mixed-20", "--cluster", "4x8cpu", "--policy", "fifo,sjf", "--seed", "0-1")
    lines = run(*call, "--out", tmp_path).stdout.splitlines()
    rows = json.loads((tmp_path / "summary.json").read_text())
    fifo, sjf = ([row["mean_jct"] for row in rows if row["policy"] == policy] for policy in ("fifo", "sjf"))
    mean, deviation = sum(sjf) / 2, abs(sjf[0] - sjf[1]) / 2
    changes = [100 * (other / one - 1) for one, other in zip(fifo, sjf, strict=True)]
    half = T_OF_TWO * abs(changes[0] - changes[1]) / 2

    assert deviation > 1
    assert lines[2].split()[:3] == ["sjf", "2", "40/40"]
    assert f"{mean:,.0f} ± {deviation:,.0f}" in lines[2]
    assert lines[3] == "± is the standard deviation over the seeds."
    assert lines[5] == "Change, seed by seed:"
    assert lines[7].split()[:2] == ["sjf", "fifo"]
    assert f"{sum(changes) / 2:+.1f} ± {half:.1f} %" in lines[7]
    assert lines[8] == "± is half of the 95 % confidence interval of the mean."
    (written,) = json.loads((tmp_path / "changes.json").read_text())
    assert (written["policy"], written["against"], written["seeds"]) == ("sjf", "fifo", 2)
    assert written["mean_jct"]["mean"] == pytest.approx(sum(changes) / 200)
    assert written["mean_jct"]["high"] - written["mean_jct"]["low"] == pytest.approx(2 * half / 100, rel=1e-3)
    assert written["mean_t90"] is None


def test_the_change_of_every_figure_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Mean, median, makespan, T90, and the jobs that end late; of one seed there is no interval."""

    def ran(policy: str, *ends_s: float) -> SimulationResult:
        jobs = [
            JobResult(name=f"j{number}", submit_s=0.0, start_s=0.0, end_s=end_s, learned_s=end_s / 2)
            for number, end_s in enumerate(ends_s)
        ]
        return SimulationResult(policy=policy, seed=0, jobs=jobs, used=1.0, capacity=1.0, events=1, wall_seconds=0.1)

    show_results([ran("spread", 10.0, 20.0, 30.0), ran("steepest", 5.0, 10.0, 33.0)])
    *_, header, row = capsys.readouterr().out.splitlines()

    assert " ".join(header.split()) == "POLICY AGAINST MEAN JCT MEDIAN MAKESPAN T90 LATE WORST"
    assert " ".join(row.split()) == "steepest spread -20.0 % -50.0 % +10.0 % -20.0 % 33.3% +10%"


def test_jobs_that_did_not_finish_under_both_policies_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """A mean over those alone that a policy finished is no gain; how many are left out is said."""
    jobs = [JobResult(name=name, submit_s=0.0, start_s=0.0, end_s=end_s) for name, end_s in (("a", 10.0), ("b", 50.0))]
    unfinished = [jobs[0], JobResult(name="b", submit_s=0.0, start_s=0.0, outcome="running")]
    ran = (("fifo", jobs), ("las", unfinished), ("sjf", jobs))
    show_results(
        [
            SimulationResult(policy=policy, seed=0, jobs=ended, used=1.0, capacity=1.0, events=1, wall_seconds=0.1)
            for policy, ended in ran
        ]
    )
    printed = capsys.readouterr()
    _, *rows, _, _, _, las, sjf = (line.split() for line in printed.out.splitlines())

    assert [row[:3] for row in rows] == [["fifo", "2/2", "30.0"], ["las", "1/2", "10.0"], ["sjf", "2/2", "30.0"]]
    assert las[:8] == ["las", "fifo", *["+0.0", "%"] * 3]
    assert "las: without 1 job that did not finish under both policies\n" in printed.err
    assert "sjf: without" not in printed.err
    assert sjf[:4] == ["sjf", "fifo", "+0.0", "%"]


def test_jobs_that_fit_nowhere_are_reported(tmp_path: Path) -> None:
    """Reported once, beside any other assumption: nodes of this memory take none of these jobs."""
    nodes = tmp_path / "small.toml"
    nodes.write_text("[[node]]\ncpus = 8\nmemory_gib = 0.25\n")
    result = run("--workload", "thesis:flowcon-3", "--cluster", nodes, "--policy", "spread")

    assert result.exit_code == 0
    assert result.stderr.startswith("spread: 3 jobs ask for more than any node has\n")
    assert result.stdout.splitlines()[1].split()[1] == "0/3"


def test_files_hold_every_job_and_every_figure(tmp_path: Path) -> None:
    """Folders above are made as well, and what a run of the day before left there is replaced."""
    folder = tmp_path / "results" / "today"
    for _ in range(2):
        result = run(*SMALL, "--policy", "spread,srtf", "--seed", "0-1", "--out", folder, "--json")
    printed = objects(result)
    rows = json.loads((folder / "summary.json").read_text())
    jobs = list(csv.DictReader((folder / "jobs.csv").read_text().splitlines()))

    assert [{key: row[key] for key in KEYS.split()} for row in rows] == printed
    assert [row["seed"] for row in rows] == [0, 1, 0, 1]
    assert all(row["assumptions"] for row in rows)
    assert len(jobs) == 4 * 3
    for row in rows:
        mine = [job for job in jobs if (job["policy"], job["seed"]) == (row["policy"], str(row["seed"]))]
        jcts = [float(job["end_s"]) - float(job["submit_s"]) for job in mine]
        assert sum(jcts) / 3 == pytest.approx(row["mean_jct"])


def test_the_same_call_gives_the_same_bytes_with_any_number_of_processes_and_any_hash_seed(tmp_path: Path) -> None:
    """Under every policy, but for the time that it took."""
    policies = ",".join(names())
    results: list[tuple[list[dict[str, Any]], bytes]] = []
    for workers, hash_seed in ((1, "1"), (2, "2718")):
        out = tmp_path / f"{workers}-{hash_seed}"
        call = ["simulate", "--workload", "thesis:flowcon-10", "--cluster", "2x8cpu", "--policy", policies]
        done = subprocess.run(
            [*STEEPEST, *call, "--seed", "1", "--jobs", str(workers), "--out", str(out), "--json"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        )
        printed = [json.loads(line) for line in done.stdout.splitlines()]
        assert all(one.pop("wall_seconds") > 0 for one in printed)
        results.append((printed, (out / "jobs.csv").read_bytes()))

    assert len(results[0][0]) == len(names())
    assert results[0] == results[1]


def test_the_policies_are_listed() -> None:
    """Each policy is listed with its description, without a workload."""
    result = run("--policies")

    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == names()


def test_a_recording_is_played_on_beside_what_was_recorded() -> None:
    """Its own policy comes first, as a baseline, before the requested ones."""
    printed = objects(run("--from", RECORDING, "--at", 395, "--policy", "spread", "--json"))

    assert [one["policy"] for one in printed] == ["as recorded", "spread"]
    assert all(one["jobs"] == 12 for one in printed)


def test_what_is_guessed_of_a_recording_is_said_and_how_much_guesses_differ(tmp_path: Path) -> None:
    """After a recording breaks off, the ends of its jobs are unknown."""
    folder = tmp_path / "cut"
    shutil.copytree(RECORDING, folder)
    for file in folder.rglob("*.jsonl"):
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(lines[: len(lines) // 2]))
    result = run("--from", folder, "--seed", "0-2")
    spreads = re.findall(r"± (\d+)", result.stdout.splitlines()[1])

    assert any(map(int, spreads)), result.stdout
    assert "assumed: ends are guessed from fitted curves: " in result.stderr


def test_a_policy_is_compared_job_by_job_with_the_first_one() -> None:
    """Of jobs that begin on the same nodes: how many end later, and the one that is delayed most."""
    call = ("--workload", "thesis:mixed-20", "--cluster", "2x8cpu", "--policy", "spread,steepest", "--pin", "--json")
    spread, steepest = objects(run(*call))

    assert (spread["late_share"], spread["late_worst"]) == (None, None)
    assert 0 <= steepest["late_share"] <= 1
    assert steepest["mean_t90"] < steepest["mean_jct"] < spread["mean_jct"]
    assert (steepest["late_worst"] > 0.05) == (steepest["late_share"] > 0)
    for figure in ("mean_jct", "median_jct", "makespan", "mean_t90"):
        assert spread[f"{figure}_change"] is None
        assert steepest[f"{figure}_change"] == pytest.approx(steepest[figure] / spread[figure] - 1)

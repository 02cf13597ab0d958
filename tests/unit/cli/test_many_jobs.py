"""Commands about several jobs: what they select, what they ask for, and what they refuse."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner, Result
from tests.harness.scenarios.folded_pool import placement, submitted
from tests.unit.cli.conftest import Holding

from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import StateFolder
from steepest.cli.jobs import callers_environment
from steepest.cli.main import main
from steepest.cli.pool.stored_pool import StoredPool, look
from steepest.events import cluster as c
from steepest.events.common import CheckpointMode
from steepest.events.requests import Hold


def call(folder: StateFolder, command: str, *arguments: str) -> Result:
    """Call a command on a folder."""
    return CliRunner().invoke(main, [*command.split(), "--state", str(folder.root), *arguments], prog_name="steepest")


def pool_of(folder: StateFolder) -> StoredPool:
    """The pool as it stands."""
    return look(read_settings({"state_dir": folder.root}, environ={}))


def held_in(folder: StateFolder) -> list[str]:
    """The jobs that are held."""
    return [job.name for job in pool_of(folder).view.jobs if job.hold]


@pytest.fixture
def folder(holding: Holding) -> StateFolder:
    """A folder whose log has five jobs that wait: three of an array, and two of a queue."""
    sweep = [submitted(f"sweep-{n}", array="sweep") for n in range(3)]
    return holding(*sweep, submitted("a", queue="paper"), submitted("b", queue="paper"))


@pytest.mark.parametrize(
    ("chosen", "found"),
    [
        (("a",), ["a"]),
        (("a", "b", "a"), ["a", "b"]),
        (("sweep-*",), ["sweep-0", "sweep-1", "sweep-2"]),
        (("sweep-[12]", "a"), ["sweep-1", "sweep-2", "a"]),
        (("--array", "sweep"), ["sweep-0", "sweep-1", "sweep-2"]),
        (("--queue", "paper"), ["a", "b"]),
        (("*", "--queue", "paper"), ["a", "b"]),
    ],
)
def test_jobs_are_named_in_several_ways(folder: StateFolder, chosen: tuple[str, ...], found: list[str]) -> None:
    """Each is asked for once, and is held until it is released."""
    done = call(folder, "hold", *chosen)
    assert done.exit_code == 0
    assert done.stdout.count(" is held") == len(found)
    assert sorted(held_in(folder)) == sorted(found)

    assert call(folder, "release", *chosen).exit_code == 0
    assert held_in(folder) == []


@pytest.mark.parametrize(
    ("call_of", "says"),
    [
        (("hold",), "name a job, a pattern"),
        (("hold", "nosuch"), "there is no job 'nosuch'"),
        (("cancel", "x*"), "no job matches x*"),
        (("cancel", "--queue", "nosuch"), "no job is meant"),
        (("release", "a"), "a: nothing holds it"),
        (("priority", "a", "--to", "hihg"), "there is no class hihg"),
        (("retry", "a"), "a: it is not over"),
        (("nodes drain", "n9"), "there is no node 'n9'"),
        (("submit", "--after", "nosuch", "--", "true"), "there is no job 'nosuch'"),
        (("submit", "--array", "20%0", "--", "true"), "write it like 20, or 20%4"),
        (("submit", "--gpus", "1.5", "--", "true"), "whole GPUs, or a share of one"),
        (("submit", "--rungs", "100", "--", "true"), "add --array or --param"),
        (("submit", "--array", "3", "--rungs", "0", "--", "true"), "write it like 100, or 100x4"),
        (("submit", "--array", "3", "--rungs", "9x1", "--", "true"), "write it like 100, or 100x4"),
        (("submit", "--param", "a=1..2", "--", "echo", "{a}"), "say with --array how many values to draw"),
        (("submit", "--array", "3", "--param", "a=2..1", "--", "echo", "{a}"), "write a range like 0.1..0.9"),
        (("submit", "--array", "3", "--param", "a=log:0..1", "--", "echo", "{a}"), "write a range like 0.1..0.9"),
        (("submit", "--array", "3", "--param", "a=1,2", "--", "echo", "{a}"), "--param makes 2 jobs"),
        (("trials", "nosuch"), "there is no array nosuch; there are: sweep"),
        (("submit", "--time", "soon", "--", "true"), "is no amount of time"),
        (("submit", "--time", "0s", "--", "true"), "'0s' is too little time"),
        (("submit", "--time", "9999999999999d", "--", "true"), "is too much time"),
    ],
)
def test_what_cannot_be_done_is_one_line(folder: StateFolder, call_of: tuple[str, ...], says: str) -> None:
    """With what to do, and nothing is on the log."""
    before = pool_of(folder).view.position
    done = call(folder, *call_of)

    assert done.exit_code == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert pool_of(folder).view.position == before


def test_of_several_the_others_are_done(holding: Holding) -> None:
    """One that is refused is named, and the status says so."""
    folder = holding(submitted("a"), submitted("b"))
    call(folder, "hold", "a")
    done = call(folder, "release", "a", "b")

    assert done.exit_code == 1
    assert done.stdout.startswith("a is released")
    assert done.stderr == "Error: b: nothing holds it\n"
    assert held_in(folder) == []


def test_of_a_pattern_those_are_left_out_that_do_not_apply(holding: Holding) -> None:
    """Unless it is none of them."""
    folder = holding(submitted("a-1"), submitted("a-2"))
    call(folder, "hold", "a-1")
    done = call(folder, "release", "a-*")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "a-2" not in done.stdout
    again = call(folder, "release", "a-*")
    assert (again.exit_code, again.stderr) == (2, "Error: a-1: nothing holds it; see `steepest explain a-1`\n")


def test_a_job_that_waits_for_others_is_not_released(holding: Holding) -> None:
    """No user holds it: an array keeps its limit, and a job starts after those that it names."""
    array = [submitted(f"a-{n}", array="a", array_most=1) for n in range(3)]
    folder = holding(*array, submitted("then", after=("a-0",)))
    for name in ("a-*", "a-1", "then"):
        assert call(folder, "release", name).exit_code == 2
    assert "then: it waits for other jobs, and no user holds it" in call(folder, "release", "then").stderr
    assert held_in(folder) == ["a-1", "a-2", "then"]


def test_where_all_are_refused_nothing_is_done(holding: Holding) -> None:
    """The status says so, of one job as of several; a retry is of all that are named, or of none."""
    over = c.JobEnded(job="b", outcome=c.Outcome.FAILED, exit_status=1)
    folder = holding(submitted("a"), submitted("b"), over)
    before = pool_of(folder).view.position
    for of_several in (("release", "a", "b"), ("retry", "b", "a"), ("cancel", "a", "b")):
        assert call(folder, *of_several).exit_code == 2
    assert pool_of(folder).view.position == before


def test_a_pattern_of_finished_jobs_is_not_run_again_in_silence(holding: Holding) -> None:
    """The call fails and says so; one of them by its name runs again."""
    finished = c.JobEnded(job="a-1", outcome=c.Outcome.FINISHED, exit_status=0)
    folder = holding(submitted("a-1"), finished)
    done = call(folder, "retry", "a-*")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: all of these jobs have finished")
    assert call(folder, "retry", "a-1").stdout == "a-1 runs again as a-1.2\n"


def test_a_job_that_is_being_placed_is_starting(holding: Holding) -> None:
    """It has no node yet, and has printed nothing; neither is an error."""
    joined = c.NodeJoined(node="n1", capacity=submitted("x").spec.requests)
    began = c.StepBegun(plan="p", step=c.Step.START, attempt=1, job="a", incarnation=1, node="n1")
    folder = holding(joined, submitted("a"), placement("a", "n1", plan="p"), began)

    assert call(folder, "jobs").stdout.splitlines()[1].split()[:3] == ["a", "-", "starting"]
    assert "a has not started yet" in call(folder, "logs", "a").stderr


def test_a_job_that_cannot_save_is_not_suspended(holding: Holding) -> None:
    """It would lose its work."""
    placed = c.JobPlaced(plan="p", attempt=1, job="a", incarnation=1, node="n1")
    began = c.StepBegun(plan="p", step=c.Step.START, attempt=1, job="a", incarnation=1, node="n1")
    joined = c.NodeJoined(node="n1", capacity=submitted("x").spec.requests)
    of_a = placement("a", "n1", plan="p")
    folder = holding(joined, submitted("a", mode=CheckpointMode.NONE), of_a, began, placed)
    done = call(folder, "suspend", "a")

    assert done.exit_code == 2
    assert "it cannot save" in done.stderr


def test_a_job_is_submitted_again(holding: Holding) -> None:
    """With all that it was submitted with, which the view keeps no longer, under the next name."""
    first = submitted("a", working_dir="/tmp", env={"SEED": "7"}, steps=9, after=("b",))  # noqa: S108 - a name
    failed = c.JobRejected(job="a", request=first.request, reason="no room")
    folder = holding(first, failed, submitted("c"))
    done = call(folder, "retry", "a")

    assert done.exit_code == 0
    assert done.stdout == "a runs again as a.2\n"
    again = pool_of(folder).view.jobs["a.2"].spec
    assert (again.env, again.working_dir, again.steps, again.after) == ({"SEED": "7"}, "/tmp", 9, ())  # noqa: S108


def test_what_submit_asks_for(folder: StateFolder) -> None:
    """An array of which some run at a time, what it comes after, GPUs, and a limit of time."""
    folder.create(folder.read())
    options = ("--name", "x", "--array", "3%2", "--time", "4h", "--after", "sweep-*", "--after", "a")
    assert call(folder, "submit", *options, "--", "true").exit_code == 0

    jobs = [pool_of(folder).view.jobs[f"x-{n}"] for n in range(3)]
    assert {job.hold for job in jobs} == {Hold.OTHERS}
    spec = jobs[2].spec
    assert (spec.array, spec.array_most, spec.time_limit_ms) == ("x", 2, 4 * 3_600_000)
    assert spec.after == ("sweep-0", "sweep-1", "sweep-2", "a")


def test_the_shell_s_environment_is_exported(folder: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what is about the terminal or Steepest; a variable of --env counts more."""
    for name, value in {"HF_HOME": "/data/hf", "SEED": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    call(folder, "submit", "--name", "x", "--export", "--env", "SEED=2", "--", "true")
    env = pool_of(folder).view.jobs["x"].spec.env

    assert (env["HF_HOME"], env["SEED"], env["PATH"]) == ("/data/hf", "2", os.environ["PATH"])
    assert not {"TERM", "PWD"} & set(env)


def test_variables_that_differ_are_named(folder: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that trainings read, compared with the running system's; their values are not shown."""
    there = {**os.environ, "HF_HOME": "/other"}
    monkeypatch.setattr(callers_environment, "_system_environment", lambda _: there)
    monkeypatch.setenv("WANDB_API_KEY", "secret")
    monkeypatch.setenv("HF_HOME", "/mine")
    monkeypatch.setenv("EDITOR", "vi")
    done = call(folder, "submit", "--name", "x", "--", "true")

    assert "other values of HF_HOME, WANDB_API_KEY; --export" in done.stderr
    assert "secret" not in done.stderr
    assert "other values" not in call(folder, "submit", "--name", "y", "--export", "--", "true").stderr


def test_another_priority(folder: StateFolder) -> None:
    """By its class or as a number; where the queue does not go by it, that is said."""
    assert "which the queue fifo does not look at" in call(folder, "priority", "a", "--to", "high").stdout
    call(folder, "priority", "b", "--to", "-3")
    jobs = pool_of(folder).view.jobs

    assert (jobs["a"].spec.priority, jobs["a"].spec.priority_class) == (100, "high")
    assert (jobs["b"].spec.priority, jobs["b"].spec.priority_class) == (-3, "")


def test_the_state_folder_above_is_found(folder: StateFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """As git finds its own: from a folder below that of the installation."""
    root = folder.root.rename(folder.root.with_name(".steepest"))
    (below := root.parent / "src" / "deep").mkdir(parents=True)
    monkeypatch.chdir(below)
    done = CliRunner().invoke(main, ["jobs"], prog_name="steepest")

    assert done.exit_code == 0
    assert "sweep-1" in done.stdout
    monkeypatch.chdir("/")
    assert "no state folder at .steepest" in CliRunner().invoke(main, ["jobs"], prog_name="steepest").stderr


def test_a_script_that_is_not_there_is_refused(folder: StateFolder) -> None:
    """Unless its user insists."""
    call_of = ("submit", "--name", "x", "--", "python", "nowhere.py")
    refused = call(folder, *call_of)
    assert refused.exit_code == 2
    assert "nowhere.py; --force submits it all the same" in refused.stderr
    assert call(folder, "submit", "--force", *call_of[1:]).exit_code == 0

"""What ``steepest simulate`` refuses: in one line that names the source and the fault, with status 2 and no output."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.unit.sim.samples import JSONL, MURI, OPENB

from steepest.cli.main import main

RECORDING = Path(__file__).parents[2] / "golden" / "moves"
CALL = {"--workload": "thesis:flowcon-3", "--cluster": "1x8cpu", "--policy": "srtf"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refusal(*arguments: str, **changed: str | None) -> str:
    """What it says about a call that is sound but for what is changed or added; an option of None is left out."""
    call = CALL | {f"--{name}": value for name, value in changed.items()}
    options = [part for name, value in call.items() if value is not None for part in (name, value)]
    done = CliRunner().invoke(main, ["simulate", *options, *arguments], prog_name="steepest")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("Error: ").rstrip("\n")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("policy", "fastest", "there is no policy 'fastest'; name some of steepest, spread, specon, "),
        ("policy", "srtf,fastest", "there is no policy 'fastest'"),
        ("policy", "x" * 9_000, f"there is no policy '{'x' * 100}'; "),
        ("policy", ",", "say what to simulate: --workload, --cluster and --policy"),
        ("policy", None, "say what to simulate: --workload, --cluster and --policy"),
        ("workload", None, "say what to simulate: --workload, --cluster and --policy"),
        ("cluster", None, "say what to simulate: --workload, --cluster and --policy"),
        ("cluster", "8gpu", "cluster '8gpu': is not <nodes>x<number>gpu or cpu; write e.g. 8x8gpu"),
        ("cluster", "2x8cpu+4y2gpu", "cluster '4y2gpu' (of '2x8cpu+4y2gpu'): is not <nodes>x<number>gpu or cpu"),
        ("cluster", "0x8cpu", "cluster '0x8cpu', count: 0 is not between 1 and 100000"),
        ("cluster", "1x0cpu", "cluster '1x0cpu': a node needs at least one"),
        ("cluster", "999999999x8gpu", "cluster '999999999x8gpu', count: 999999999 is not between"),
        ("cluster", "none.toml", "none.toml: cannot be read: No such file or directory"),
        ("workload", "thesis:fixed-21", "workload 'thesis:fixed-21': there are no such arrivals; name one of thesis:"),
        ("workload", "none.csv", "none.csv: cannot be read: No such file or directory"),
        ("workload", ".", ".: cannot be read: Is a directory"),
        ("rules", "odd", "there are no rules 'odd'; name one of default, muri, pollux"),
        ("profiles", "tables", "the rules default read no measured tables; leave --profiles out"),
        ("seed", "", "'' is no seed; write 3, 1,2,3 or 0-9"),
        ("seed", "1,", "'' is no seed"),
        ("seed", "one", "'one' is no seed"),
        ("seed", "-1", "'-1' is no seed"),
        ("seed", "1.5", "'1.5' is no seed"),
        ("seed", "3-", "'3-' is no seed"),
        ("seed", "1-2-3", "'1-2-3' is no seed"),
        ("seed", "٣", "'٣' is no seed"),
        ("seed", "²", "'²' is no seed"),
        ("seed", "9" * 5_000, f"'{'9' * 60}…' is no seed"),
        ("seed", "9-0", "--seed 9-0: the range ends before it begins"),
        ("seed", "0-100000", "--seed 0-100000: are more than 100,000 seeds"),
        ("at", "5", "--at is a position of a recording; name the recording with --from"),
        ("at", "soon", "Invalid value for '--at': 'soon' is not a valid integer"),
        ("jobs", "0", "Invalid value for '--jobs': 0 is not in the range x>=1"),
        ("from", "nowhere", "Invalid value for '--from': Directory 'nowhere' does not exist"),
    ],
)
def test_a_wrong_option_is_named(name: str, value: str | None, said: str) -> None:
    """With what would be right, where that can be listed."""
    assert refusal(**{name: value}).startswith(said)


def test_at_alone_asks_for_its_recording() -> None:
    """It does not ask for a workload, which --at does not use."""
    assert refusal("--at", "5", workload=None, cluster=None).startswith("--at is a position of a recording")


def test_a_pools_policy_has_no_peers_rules_and_nothing_runs_before_that_is_said() -> None:
    """Also where an allocation policy stands before it."""
    said = refusal(policy="srtf,procon", rules="muri")

    assert said.startswith(
        "policy procon runs a whole pool as it would live, and not by the rules of muri; leave --rules"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a,b,c\n1,2,3\n", "line 1: unrecognised workload format; give a trace of muri, tiresias"),
        (MURI[: MURI.rindex(",100,")], "line 4, column iteration_time: the line has 8 cells where 10 must stand"),
        (MURI.replace("\n1,8,12000", "\n1,-8,12000"), "line 3, column num_gpu: -8 is below 1"),
        (MURI.replace("\n1,8,12000", "\n1,8e9,12000"), "line 3, column num_gpu: '8e9' is not a whole number"),
        (MURI.replace("\n1,8,12000", f"\n1,{10**9},12000"), "line 3, column num_gpu: '1000000000' is above 1e+06"),
        (MURI.replace("\n2,1", "\n1,1"), "line 4, column job_id: line 3 has a job 'job-1' already"),
        (MURI.replace("190.5,1", "often,1"), "line 3, column iteration_time: 'often' is not a number"),
        (JSONL.replace("100.5", "-1"), "line 1, column work_s: -1.0 is not between"),
        (JSONL[: JSONL.rindex(":")], "line 2"),
        (OPENB.replace("12500,20", "10,20"), "line 2, column deletion_time: 10 is before the scheduled_time, 20"),
    ],
)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_faulty_workload_is_named_by_file_line_and_column(text: str, said: str, workers: str) -> None:
    """Whether this process reads it or another one; nothing is simulated of it."""
    Path("trace.csv").write_text(text)

    assert refusal("--jobs", workers, workload="trace.csv", cluster="1x8gpu", policy="srtf,fifo").startswith(
        f"trace.csv{',' if said.startswith('line') else ':'} {said}"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[node]]\ncount = -1\ncpus = 8\n", "nodes.toml, node 0, count: -1 is not between"),
        ("[[node]]\ncpu = 8\n", "nodes.toml: does not describe a cluster: "),
        ("[[node\n", "nodes.toml: does not describe a cluster: "),
    ],
)
def test_a_faulty_cluster_is_named_by_file_and_field(text: str, said: str) -> None:
    """As a workload's faults are."""
    Path("nodes.toml").write_text(text)

    assert refusal(cluster="nodes.toml").startswith(said)


@pytest.mark.parametrize("out", ["taken", "taken/below"])
def test_a_folder_that_cannot_be_made_is_refused_before_anything_runs(out: str) -> None:
    """A file is in its place; without this check the missing workload would be reported."""
    Path("taken").write_text("a file")

    assert "taken" in (said := refusal(out=out, workload="none.csv"))
    assert "none.csv" not in said
    assert Path("taken").read_text() == "a file"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--workload", "thesis:fixed-20"),
            "a recording brings its own jobs, nodes and rules; leave those options out",
        ),
        (("--rules", "muri"), "a recording brings its own jobs, nodes and rules"),
        (("--policy", "srtf"), "a recording is played on by the live policies steepest, spread, specon, "),
        (("--policy", "procon"), "a recording is played on by the live policies steepest, spread, specon, "),
        (("--at", "0"), "--at 0: the recording's positions are 1 to "),
        (("--at", "-5"), "--at -5: the recording's positions are 1 to "),
        (("--at", "999999999"), "--at 999999999: the recording's positions are 1 to "),
        ((), "no job is left at that position; name an earlier position: --at POSITION"),
    ],
)
def test_a_recording_is_played_on_from_where_there_is_something_left(options: tuple[str, ...], said: str) -> None:
    """By what could have run it, with what it holds."""
    nothing = dict.fromkeys(("workload", "cluster", "policy"))

    assert refusal("--from", str(RECORDING), *options, **nothing).startswith(said)


def test_a_folder_that_is_no_recording_is_told() -> None:
    """As for every command that reads one."""
    Path("empty").mkdir()

    assert refusal("--from", "empty", workload=None, cluster=None, policy=None).startswith("empty is not a recording: ")

"""``steepest parse``: what people see, what programs get, and how it ends."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from steepest.cli.commands.parse import parse
from steepest.cli.printing.parse_summary import SPARKLINE_CHARS, LossCurve

LOG = "  loss_scale ........ 12.0\nstep=1 loss=0.5\nstep=2 loss=nan\nstep=2 loss=nan\nstep=3 loss=0.25 val_loss=0.5\n"


def run(*arguments: str, input: str | None = None) -> Result:  # noqa: A002 - click's own word
    """Runs the command in this process."""
    return CliRunner().invoke(parse, arguments, input=input)


def test_json_is_one_object_a_record_and_nothing_else() -> None:
    """Standard output holds one object a line, with the fields that programs are promised."""
    result = run("-", "--json", input=LOG)
    objects = [json.loads(line) for line in result.stdout.splitlines()]

    assert result.exit_code == 0
    assert [(one["line"], one["step"], one["epoch"], one["metric"], one["value"], one["split"]) for one in objects] == [
        (2, 1, None, "loss", 0.5, "train"),
        (3, 2, None, "loss", "NaN", "train"),
        (5, 3, None, "loss", 0.25, "train"),
        (5, 3, None, "val_loss", 0.5, "eval"),
    ]


def test_people_see_format_metrics_and_what_was_passed_over() -> None:
    """The summary names the format, each metric's ends, and why lines that look like a loss were not taken."""
    result = run("-", input=LOG)

    assert result.exit_code == 0
    for words in ("general", "val_loss", "1–3", "as read", "says the loss scale", "repeats a step"):
        assert words in result.stdout


def test_a_metric_and_an_own_pattern(tmp_path: Path) -> None:
    """--metric narrows what is reported, --pattern replaces the formats."""
    path = tmp_path / "job.log"
    path.write_text(LOG + "cost of 7 is 2.5\n", encoding="utf-8")

    metric = run(str(path), "--json", "--metric", "val-loss").stdout.splitlines()
    own = run(str(path), "--json", "--pattern", r"cost of (?P<step>\d+) is (?P<value>\S+)").stdout.splitlines()

    assert [json.loads(line)["metric"] for line in metric] == ["val_loss"]
    assert [(json.loads(line)["step"], json.loads(line)["value"]) for line in own] == [(7, 2.5)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-", "--format", "kears"), "did you mean keras"),
        (("-", "--pattern", "(a"), "'(a'"),
        (("-", "--pattern", "a"), "has no group"),
        (("no-such-file",), "No such file"),
    ],
)
def test_wrong_input_ends_with_2_and_says_what_is_wrong(arguments: tuple[str, ...], words: str) -> None:
    """A wrong option or file is named, with what to do, and the exit status is 2."""
    result = run(*arguments, input="")

    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""


def test_a_log_without_a_loss_is_no_error() -> None:
    """Nothing found is an answer: it says so and ends with 0."""
    result = run("-", input="hello\n")

    assert result.exit_code == 0
    assert "no number of this log is known to be a loss" in result.stdout


@pytest.mark.parametrize(("arguments", "words"), [(("--json",), b'"value":0.5'), ((), b"step 1 loss 0.5 train")])
def test_a_job_that_still_runs_is_shown_line_by_line(arguments: tuple[str, ...], words: bytes) -> None:
    """A reading from a pipe is shown while the job that writes to it goes on, not when many lines have come."""
    program = [sys.executable, "-c", "from steepest.cli.main import main; main()", "parse", "-", *arguments]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None and running.stdout is not None  # noqa: PT018
        for step in (1, 2):
            running.stdin.write(f"step={step} loss=0.5\n".encode())
            running.stdin.flush()
            assert words.replace(b"step 1", b"step %d" % step) in running.stdout.readline()
        running.stdin.close()


def test_what_is_not_understood_gets_a_pattern_that_settles_it() -> None:
    """The expression that is suggested for unknown words reads them."""
    text = "".join(f"tick {tick}: wobble {1 / tick}\n" for tick in range(1, 5))
    said = run("-", input=text).stdout
    pattern = shlex.split(said[said.index("--pattern") :])[1]

    assert [
        json.loads(line)["step"] for line in run("-", "--json", "--pattern", pattern, input=text).stdout.splitlines()
    ] == [1, 2, 3, 4]


def test_the_reason_fits_what_was_asked_for() -> None:
    """A line of another metric does not repeat a step, and a pattern looks for no word."""
    assert "of another metric than the one asked for" in run("-", "--metric", "bleu", input=LOG).stdout
    assert "no number in the pattern's group" in run("-", "--pattern", "(?P<value>.*)", input=LOG).stdout


def test_a_curve_holds_few_values_of_many() -> None:
    """However many values come, a sparkline stays as long as its bound, and keeps the shape."""
    curve = LossCurve()
    for value in range(100_000):
        curve.add(float(value))

    assert len(curve.values) < 2 * SPARKLINE_CHARS
    assert len(curve.sparkline()) <= SPARKLINE_CHARS
    assert curve.sparkline() == "".join(sorted(curve.sparkline()))


def test_epochs_are_shown_where_lines_have_no_steps(tmp_path: Path) -> None:
    """From where to where; and where nothing is read, the options that would help are named."""
    (tmp_path / "epochs.log").write_text("".join(f"Epoch {one}/40 | loss 0.{90 - one}\n" for one in range(1, 4)))
    (tmp_path / "words.log").write_text("hello\n")
    assert "epoch 1–3" in run(str(tmp_path / "epochs.log")).stdout
    assert "--pattern" in run(str(tmp_path / "words.log")).stdout

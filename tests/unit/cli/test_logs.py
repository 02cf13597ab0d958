"""``steepest logs`` on what a state folder keeps, and the last lines beside a failure."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result
from tests.harness.scenarios.folded_pool import FoldedPool, joined, placement, submitted
from tests.unit.cli.conftest import Holding

from steepest.app.state_folder import StateFolder
from steepest.cli.commands.explain import explain
from steepest.cli.commands.logs import logs
from steepest.cli.printing.event_printer import EventPrinter
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c

SUBMITTED = c.JobSubmitted(job="a", request="r", spec=c.JobSpec(command=("python", "train.py")))
ADMITTED = c.JobAdmitted(job="a", request="r")
FAILED = c.JobEnded(job="a", outcome=c.Outcome.FAILED, exit_status=1, reason="it exited with status 1")


def print_as(folder: StateFolder, text: str, *, incarnation: int = 1, replica: int = 0) -> None:
    """Let the job have printed something."""
    state = AdapterFolder(folder.cluster)
    state.make()
    its = state.incarnation(ReplicaId("a", replica), incarnation)
    its.path.mkdir(parents=True)
    its.output.write_text(text)


def call(folder: StateFolder, *arguments: str) -> Result:
    """``steepest logs`` on the folder."""
    return CliRunner().invoke(logs, ["--state", str(folder.root), *arguments])


def test_the_newest_incarnation_is_shown_or_the_one_asked_for(holding: Holding) -> None:
    """Each incarnation's output is kept apart, also once the job is over."""
    folder = holding(SUBMITTED, ADMITTED, FAILED)
    print_as(folder, "first\n")
    print_as(folder, "second\nlast\n", incarnation=2)
    AdapterFolder(folder.cluster).retire("a")

    assert call(folder, "a").stdout == "second\nlast\n"
    assert call(folder, "a", "--incarnation", "1").stdout == "first\n"
    short = call(folder, "a", "-n", "1")
    assert short.stdout == "last\n"
    assert "earlier lines are in" in short.stderr
    assert json.loads(call(folder, "a", "-n", "1", "--json").stdout) == {"incarnation": 2, "line": "last"}


def test_each_replica_has_its_own_output(holding: Holding) -> None:
    """Of a gang the chief's output is shown, or that of the replica asked for, also once the job is over."""
    spec = c.JobSpec(command=("python", "train.py"), replicas=2)
    folder = holding(c.JobSubmitted(job="a", request="r", spec=spec), ADMITTED, FAILED)
    print_as(folder, "chief\n")
    print_as(folder, "worker\n", replica=1)
    assert call(folder, "a").stdout == "chief\n"
    assert call(folder, "a", "--replica", "1").stdout == "worker\n"
    AdapterFolder(folder.cluster).retire("a")

    assert call(folder, "a", "--replica", "1", "--follow").stdout == "worker\n"
    assert "a has no replica 2" in str(call(folder, "a", "--replica", "2").exception)


def test_following_a_job_that_is_over_ends(holding: Holding) -> None:
    """What was printed is shown, with a last line that was never ended, and the command returns."""
    folder = holding(SUBMITTED, ADMITTED, FAILED)
    print_as(folder, "one\nhalf a line")

    assert call(folder, "a", "--follow").stdout == "one\nhalf a line\n"


def test_what_a_job_prints_steers_no_terminal(holding: Holding) -> None:
    """Colours are left out, and other control characters are blanks."""
    folder = holding(SUBMITTED)
    print_as(folder, "\x1b[31mred\x1b[0m\x1b]0;title\x07 loss\n")

    assert call(folder, "a").stdout == "red ]0;title  loss\n"


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (["b"], 1, "there is no job 'b'"),
        (["a", "--incarnation", "3"], 1, "nothing is kept of incarnation 3 of a"),
        (["a"], 0, "a has not started yet: it is not admitted yet: the system does that once it runs (see `steepest"),
    ],
)
def test_what_printed_nothing_is_said(holding: Holding, arguments: list[str], status: int, error: str) -> None:
    """An unknown job or incarnation is an error; a job that waits has printed nothing yet."""
    done = call(holding(SUBMITTED), *arguments)

    assert done.exit_code == status
    assert error in (done.stderr or str(done.exception))


def test_a_job_that_waits_says_why(holding: Holding) -> None:
    """A user who asks for its output right after its submission learns what it waits for, and nothing is an error."""
    waits = call(holding(submitted("a"), c.JobAdmitted(job="a", request=submitted("a").request)), "a")
    assert (waits.exit_code, waits.stderr) == (
        0,
        "a has not started yet: no node takes jobs now (see `steepest explain a`)\n",
    )


def test_a_process_that_has_just_been_started_has_printed_nothing_yet(holding: Holding) -> None:
    """Its output is made by its supervisor, a moment after the cluster has taken it on."""
    began = c.StepBegun(plan="p", step=c.Step.START, attempt=1, job="a", incarnation=1, node="n1")
    placed = c.JobPlaced(plan="p", attempt=1, job="a", incarnation=1, node="n1")
    found = call(holding(joined("n1"), submitted("a"), placement("a", "n1", plan="p"), began, placed), "a")
    assert (found.exit_code, found.stderr.split(" (see")[0]) == (0, "a has printed nothing yet that is kept here")


def test_a_failure_is_explained_with_its_last_lines(holding: Holding) -> None:
    """``explain`` shows the end of the traceback behind why the job is over."""
    folder = holding(SUBMITTED, ADMITTED, FAILED)
    print_as(folder, "".join(f"{number}\n" for number in range(9)) + "No module named 'numpy'\n")

    printed = CliRunner().invoke(explain, ["--state", str(folder.root), "a"], catch_exceptions=False).stdout
    found = json.loads(CliRunner().invoke(explain, ["--state", str(folder.root), "a", "--json"]).stdout)

    assert printed.splitlines()[-1] == "printed   No module named 'numpy'"
    assert found["printed"] == ["5", "6", "7", "8", "No module named 'numpy'"]


def test_the_words_beside_a_gangs_failure_are_those_of_the_replica_that_failed(holding: Holding) -> None:
    """The first one: the others are stopped because of it, and what they printed last says nothing."""
    pool = FoldedPool()
    pool.feed(c.PoolConfigured(), c.PoolConfigured(), joined("w1"), joined("w2"))
    pool.feed(submitted("a", replicas=3), placement("a", "w1", "w2", "w2"))
    pool.carry_out("a")
    pool.feed(pool.stopped("a", 7, replica=1), pool.stopped("a", 1, replica=2))
    pool.carry_out("a")
    pool.fold(c.JobEnded(job="a", outcome=c.Outcome.FAILED, exit_status=7, reason=pool.job("a").stop_reason))
    folder = holding(*(received.event for received in pool.log[2:]))
    for replica, text in enumerate(("hello from 0\n", "IndexError\n", "connection lost\n")):
        print_as(folder, text, replica=replica)

    printed = CliRunner().invoke(explain, ["--state", str(folder.root), "a"], catch_exceptions=False).stdout

    assert printed.splitlines()[-2:] == ["now       a has ended: failed: replica 1 on w2", "printed   IndexError"]


def test_a_failure_is_reported_with_its_last_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """``up`` prints them below the end of a job that failed, and below no other."""
    pool = FoldedPool(w1=1_000)
    printer = EventPrinter(lambda job, replica: [f"last of {job}/{replica}"])
    for job, ended in (("a", FAILED), ("b", c.JobEnded(job="b", outcome=c.Outcome.FINISHED))):
        pool.fold(submitted(job))
        assert pool.fold(ended)
        printer.observe(pool.view, pool.log[-1], accepted=True)

    assert [line.strip() for line in capsys.readouterr().out.splitlines() if "printed" in line] == [
        "a printed: last of a/0"
    ]


def test_what_the_first_line_says_is_not_said_again(capsys: pytest.CaptureFixture[str]) -> None:
    """`up` begins with the parameters, so those of a new pool are no news; later ones are."""
    pool, printer = FoldedPool(), EventPrinter()
    printer.caught_up(pool.view)
    for _ in range(2):
        accepted = pool.fold(c.PoolConfigured())
        printer.observe(pool.view, pool.log[-1], accepted=accepted)

    assert capsys.readouterr().out.count("parameters in force") == 1


def test_a_node_that_is_still_there_is_no_news(capsys: pytest.CaptureFixture[str]) -> None:
    """A node that was silent for some seconds joins again: that is printed once it was lost, or has other resources."""
    pool, printer = FoldedPool(), EventPrinter()
    again = (joined("w1"), joined("w1"), joined("w1", 2_000), c.NodeLost(node="w1", silent_ms=9), joined("w1", 2_000))
    for event in (c.PoolConfigured(), *again):
        accepted = pool.fold(event)
        printer.observe(pool.view, pool.log[-1], accepted=accepted)

    assert capsys.readouterr().out.count("node w1 joined") == 3

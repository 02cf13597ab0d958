"""``steepest jobs`` on the log of a pool that no process runs on."""

from __future__ import annotations

import json

from click.testing import CliRunner, Result
from tests.unit.cli.conftest import Holding

from steepest.cli.commands.jobs import jobs
from steepest.cli.main import main
from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.growth import FindingKind
from steepest.events.parameters import PoolParameters
from steepest.events.received import Received
from steepest.read_models.job_timeline import TimelineCollector
from steepest.view.cluster_view import ClusterView


def test_a_job_without_a_command_is_listed(holding: Holding) -> None:
    """A log may hold one, from any writer; it is shown as any other."""
    folder = holding(c.JobSubmitted(job="odd", request="r", spec=c.JobSpec(command=())))
    for form in ([], ["--json"]):
        done = CliRunner().invoke(jobs, ["--state", str(folder.root), *form], catch_exceptions=False)
        assert done.exit_code == 0
        assert "odd" in done.stdout


def test_a_reason_that_is_the_outcome_is_not_said_twice(holding: Holding) -> None:
    """A job that was cancelled is cancelled; why one failed is said."""
    folder = holding(
        c.JobSubmitted(job="left", request="r", spec=c.JobSpec(command=("train",))),
        c.JobEnded(job="left", outcome=c.Outcome.CANCELLED, reason="cancelled"),
        c.JobSubmitted(job="broken", request="s", spec=c.JobSpec(command=("train",))),
        c.JobEnded(job="broken", outcome=c.Outcome.FAILED, exit_status=1, reason="it exited with status 1"),
    )
    shown = CliRunner().invoke(jobs, ["--state", str(folder.root), "--all"], catch_exceptions=False)

    assert shown.stdout.count("cancelled") == 1
    assert "it exited with status 1" in shown.stdout


def test_the_users_are_shown_where_there_are_several(holding: Holding) -> None:
    """One column more, and one user's jobs alone without it; programs always get the name."""
    spec = c.JobSpec(command=("train",))
    mine = [c.JobSubmitted(job=f"a{n}", request=f"r{n}", spec=spec, user="alice") for n in range(2)]
    folder = holding(*mine, c.JobSubmitted(job="b0", request="r", spec=spec, user="bob"))

    def shown(*options: str) -> str:
        return CliRunner().invoke(jobs, ["--state", str(folder.root), *options], catch_exceptions=False).stdout

    assert shown().split()[:2] == ["JOB", "USER"]
    assert [line.split()[:2] for line in shown().splitlines()[1:]] == [["a0", "alice"], ["a1", "alice"], ["b0", "bob"]]
    assert shown("--user", "alice").split()[1] == "NODE"
    assert [row["user"] for row in json.loads(shown("--json"))] == ["alice", "alice", "bob"]
    assert "b0" not in shown("--user", "alice")


def test_named_jobs_are_shown_alone(holding: Holding) -> None:
    """By names and patterns, also those that have ended; a name that no job has is an error with the closest one."""
    spec = c.JobSpec(command=("train",))
    events = [c.JobSubmitted(job=name, request=name, spec=spec) for name in ("first", "sweep-0", "sweep-1")]
    folder = holding(*events, c.JobEnded(job="sweep-1", outcome=c.Outcome.FINISHED))

    def asked(*words: str) -> Result:
        return CliRunner().invoke(main, ["jobs", "--state", str(folder.root), *words])

    assert [row["job"] for row in json.loads(asked("sweep-*", "--json").stdout)] == ["sweep-0", "sweep-1"]
    assert [row["job"] for row in json.loads(asked("first", "sweep-1", "--json").stdout)] == ["first", "sweep-1"]
    wrong = asked("frist")
    assert wrong.exit_code == 2
    assert "there is no job 'frist'" in wrong.stderr
    assert "did you mean first?" in wrong.stderr
    assert asked("x*").stdout == "no job matches\n"


BECAUSE = c.Because(rule="a test says so")
MUTE: tuple[c.ClusterEvent, ...] = (
    c.PoolConfigured(parameters=PoolParameters(tick_ms=60_000)),
    c.NodeJoined(node="n1", capacity=Resources(1_000)),
    c.JobSubmitted(job="mute", request="r", spec=c.JobSpec(command=("train",))),
    c.PlacementPlanned(plan="p", job="mute", incarnation=0, nodes=("n1",), because=BECAUSE),
    c.StepBegun(plan="p", step=c.Step.START, attempt=1, job="mute", incarnation=1, node="n1"),
    c.JobPlaced(plan="p", attempt=1, job="mute", incarnation=1, node="n1"),
    c.CheckpointModeDeclared(job="mute", incarnation=1, node="n1", mode=CheckpointMode.ON_REQUEST),
)


def test_a_job_whose_losses_cannot_be_read_says_so(holding: Holding) -> None:
    """Its category is a question mark, its finding tells what to do, and programs get the fact."""
    unread = c.FindingOpened(job="mute", incarnation=1, kind=FindingKind.UNREAD, why="`submit --tty`")
    folder = holding(*MUTE, c.Tick(counted_ms=120_000), unread)
    shown = CliRunner().invoke(jobs, ["--state", str(folder.root)], catch_exceptions=False)
    (listed,) = json.loads(CliRunner().invoke(jobs, ["--state", str(folder.root), "--json"]).stdout)

    assert "?" in shown.stdout
    assert "unread: `submit --tty`" in shown.stdout
    assert listed["unknown"] is True


def test_a_job_that_has_just_begun_is_not_unknown_yet(holding: Holding) -> None:
    """For four intervals it may still report."""
    folder = holding(*MUTE, c.Tick(counted_ms=119_999))
    shown = CliRunner().invoke(jobs, ["--state", str(folder.root)], catch_exceptions=False)

    assert "?" not in shown.stdout


def test_explain_says_that_a_growth_is_unknown() -> None:
    """For as long as it is so."""
    view, timeline = ClusterView(), TimelineCollector("mute")
    events = (*MUTE, c.Tick(counted_ms=120_000), c.Tick(counted_ms=121_000))
    for offset, event in enumerate(events):
        record: Received[c.ClusterEvent] = Received(
            event=event, topic="cluster", partition=0, offset=offset, at_ms=offset, headers={}
        )
        accepted = view.fold(record)
        timeline.hear(view, record, accepted=accepted)

    assert "(growth unknown: no loss was read in 4 intervals)" in timeline.timeline(view).now


def test_an_outage_is_no_time_of_running(holding: Holding) -> None:
    """A job has run for as long as the log counted while it held its place, whatever the clock says."""
    folder = holding(*MUTE, c.Tick(counted_ms=2_000), c.Tick(counted_ms=3_000))
    (listed,) = json.loads(CliRunner().invoke(jobs, ["--state", str(folder.root), "--json"]).stdout)

    assert listed["running_ms"] == 3_000

"""Which events of the log the users of a Kubernetes cluster read about their Jobs, about which Job, and in which words."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from tests.unit.cli.test_words import SPOKEN
from tests.unit.collector.written_events import SETTINGS, UID, ApiServer, received, submitted, writing

from steepest.cluster.kubernetes.manifest import CLUSTER, name_of
from steepest.cluster.port import ReplicaId
from steepest.collector.job_notices import REASONS, WARNINGS, JobNotices, notice_of
from steepest.collector.notice_writer import ABSENT_S
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.view.cluster_view import ClusterView

DOCS = Path(__file__).parents[3] / "docs" / "kubernetes.md"
MINE = "mine.0a1b2c3d"
SPEC = c.JobSpec(command=("train",))
PLACED = c.JobPlaced(plan="p", attempt=1, job=MINE, incarnation=1, node="n1")


@pytest.mark.parametrize("event", [event for event, _ in SPOKEN], ids=lambda event: type(event).__name__)
def test_a_notice_is_one_word_and_one_sentence(event: c.ClusterEvent) -> None:
    """Programs select by the word; the sentence has no line end."""
    found = notice_of(event, 1_000)

    if found is not None:
        assert re.fullmatch(r"([A-Z][a-z]+)+", found.reason)
        assert found.message
        assert found.message.isprintable()


def test_every_word_is_explained() -> None:
    """A user finds each word in the manual, and the manual names no word that is never written."""
    rows = re.findall(r"^\| ((?:`[A-Z][A-Za-z]+`(?:, )?)+) \|", DOCS.read_text(), re.MULTILINE)
    explained = re.findall(r"`(\w+)`", " ".join(rows))

    assert sorted(explained) == sorted({*REASONS.values(), *WARNINGS.values(), "LeftAlone"})


def test_only_a_failed_end_is_a_warning() -> None:
    """A job that finishes or is cancelled needs nothing of its user."""
    warned = {outcome: notice_of(c.JobEnded(job="a", outcome=outcome), 0) for outcome in c.Outcome}

    assert {outcome for outcome, found in warned.items() if found and found.is_warning} == {c.Outcome.FAILED}


async def test_what_counts_is_written_about_the_users_job() -> None:
    """Its UID is known from the log, so that nothing is read; what does not count, or is unknown, is not written."""
    api = ApiServer()
    async with writing(api) as writer:
        notices = JobNotices(writer, SETTINGS)
        view = submitted(MINE, users="mine")
        notices.caught_up(view)
        notices.observe(view, received(PLACED, at_ms=500), accepted=False)
        notices.observe(submitted("other"), received(PLACED), accepted=True)
        notices.observe(view, received(c.Tick(counted_ms=1)), accepted=True)
        notices.observe(view, received(PLACED), accepted=True)
        await api.has_written(1)

    (event,) = api.written
    assert event["regarding"] == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": "training",
        "name": "mine",
        "uid": UID,
    }
    assert (event["reason"], event["type"], event["eventTime"]) == ("Placed", "Normal", "1970-01-01T00:00:01.000000Z")
    assert "n1" in event["note"]
    assert api.read == []


@pytest.mark.parametrize("came_meanwhile", [False, True])
@pytest.mark.parametrize("end", ["Ended", "Rejected"])
async def test_the_end_is_written_about_the_users_job_too(*, came_meanwhile: bool, end: str) -> None:
    """Although the view forgets the environment of a job that is over; nothing of it is kept here either."""
    api = ApiServer()
    view = submitted(MINE, users="mine")
    request = view.jobs[MINE].request
    ended: Received[c.ClusterEvent] = received(
        c.JobEnded(job=MINE, outcome=c.Outcome.FINISHED)
        if end == "Ended"
        else c.JobRejected(job=MINE, request=request, reason="too large")
    )
    async with writing(api) as writer:
        notices = JobNotices(writer, SETTINGS)
        notices.caught_up(ClusterView() if came_meanwhile else view)
        if came_meanwhile:
            notices.observe(view, received(c.JobSubmitted(job=MINE, request=UID, spec=SPEC)), accepted=True)
        assert view.fold(ended)
        notices.observe(view, ended, accepted=True)
        await api.has_written(1)

    (event,) = api.written
    assert (event["reason"], event["regarding"]["name"], event["regarding"]["uid"]) == (end, "mine", UID)
    assert notices._users == {}


async def test_the_uid_of_steepests_own_job_is_looked_up() -> None:
    """Another incarnation may have another Job."""
    api = ApiServer()
    own = name_of(SETTINGS, ReplicaId("mine", 0))
    api.jobs[own] = {"uid": "of-now", "labels": {CLUSTER: SETTINGS.label}}
    async with writing(api) as writer:
        ended = c.JobEnded(job="mine", outcome=c.Outcome.FINISHED)
        JobNotices(writer, SETTINGS).observe(submitted("mine"), received(ended), accepted=True)
        await api.has_written(1)

    assert (api.written[0]["regarding"]["name"], api.written[0]["regarding"]["uid"]) == (own, "of-now")


async def test_a_job_that_is_made_later_has_what_was_planned_before() -> None:
    """A placement is planned before there is a Job; the Event has the time of the plan, not that of the Job."""
    api = ApiServer()
    planned = c.PlacementPlanned(plan="p", job="mine", incarnation=0, nodes=("n1",), because=c.Because(rule="r"))
    async with writing(api) as writer:
        JobNotices(writer, SETTINGS).observe(submitted("mine"), received(planned), accepted=True)
        await asyncio.sleep(ABSENT_S - 1)
        assert len(api.read) == 1
        api.jobs[name_of(SETTINGS, ReplicaId("mine", 0))] = {"uid": "new", "labels": {CLUSTER: SETTINGS.label}}
        await api.has_written(1)

    (event,) = api.written
    assert (event["regarding"]["uid"], event["eventTime"]) == ("new", "1970-01-01T00:00:01.000000Z")


async def test_a_job_that_is_never_made_is_looked_up_twice() -> None:
    """A rejected job has none."""
    api = ApiServer()
    rejected = c.JobRejected(job="mine", request=UID, reason="it asks for more than any node has")
    async with writing(api) as writer:
        JobNotices(writer, SETTINGS).observe(submitted("mine"), received(rejected), accepted=True)
        await asyncio.sleep(10 * ABSENT_S)

    assert (len(api.read), api.written) == (2, [])


@pytest.mark.parametrize("labels", [{}, {CLUSTER: "of-another"}])
async def test_another_partys_job_of_that_name_gets_no_event(labels: dict[str, str]) -> None:
    """Nor does one that is not there; the next notice is written."""
    api = ApiServer()
    api.jobs[name_of(SETTINGS, ReplicaId("theirs", 0))] = {"uid": "theirs", "labels": labels}
    async with writing(api) as writer:
        notices = JobNotices(writer, SETTINGS)
        for job in ("theirs", "absent"):
            ended = c.JobEnded(job=job, outcome=c.Outcome.FINISHED)
            notices.observe(submitted(job), received(ended), accepted=True)
        view = submitted(MINE, users="mine")
        notices.caught_up(view)
        notices.observe(view, received(PLACED), accepted=True)
        await api.has_written(1)

    assert [event["regarding"]["name"] for event in api.written] == ["mine"]


async def test_a_forged_variable_names_no_other_job() -> None:
    """A submission that carries the variable, but was not made of a user's Job, is one of Steepest's own."""
    api = ApiServer()
    forged = c.JobEnded(job="forged", outcome=c.Outcome.FAILED)
    async with writing(api) as writer:
        notices = JobNotices(writer, SETTINGS)
        victims = submitted("forged", users="victim")
        notices.caught_up(victims)
        notices.observe(victims, received(forged), accepted=True)
        view = submitted(MINE, users="mine")
        notices.caught_up(view)
        notices.observe(view, received(PLACED), accepted=True)
        await api.has_written(1)

    assert [event["regarding"]["name"] for event in api.written] == ["mine"]
    assert api.read == [name_of(SETTINGS, ReplicaId("forged", 0))]


@pytest.mark.parametrize(("reference", "where"), [("mine", "training"), ("team-a/Job/mine", "team-a")])
async def test_an_event_is_in_the_namespace_of_its_job(reference: str, where: str) -> None:
    """There its user may read it."""
    api = ApiServer()
    async with writing(api) as writer:
        notices = JobNotices(writer, SETTINGS)
        view = submitted(MINE, users=reference)
        notices.caught_up(view)
        notices.observe(view, received(PLACED), accepted=True)
        await api.has_written(1)

    (event,) = api.written
    assert (event["metadata"]["namespace"], event["regarding"]["namespace"]) == (where, where)
    assert event["regarding"]["name"] == "mine"


async def test_nothing_is_written_in_a_namespace_that_is_not_named() -> None:
    """Also where a submission names another one."""
    api = ApiServer()
    async with writing(api) as writer:
        notices = JobNotices(writer, SETTINGS)
        view = submitted(MINE, users="kube-system/Job/mine")
        notices.caught_up(view)
        notices.observe(view, received(PLACED), accepted=True)
        await asyncio.sleep(10 * ABSENT_S)

    assert api.written == []


async def test_limits_let_decisions_go_first() -> None:
    """A policy that limits every job at every interval neither delays nor displaces what happens once."""
    api = ApiServer()
    view = submitted(MINE, users="mine")
    async with writing(api) as writer:
        notices = JobNotices(writer, SETTINGS)
        notices.caught_up(view)
        notices.observe(view, received(PLACED), accepted=True)
        for cpu_m in range(1, 1_000):
            applied = c.LimitsApplied(plan="p", node="n1", job=MINE, incarnation=1, cpu_m=cpu_m)
            notices.observe(view, received(applied), accepted=True)
        await api.has_written(2)

    assert [event["reason"] for event in api.written] == ["Placed", "Limited"]

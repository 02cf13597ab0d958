"""The budget of Events about Jobs: a flood is cut, failures are waited out, and what is written twice exists once."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from itertools import pairwise

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.collector.written_events import SETTINGS, UID, ApiServer, writing

from steepest.cluster.kubernetes.api import INVALID, TOO_MANY, AnswerError
from steepest.cluster.kubernetes.job_events import JobSubject, Notice, event_of, post_event
from steepest.collector.notice_writer import PAUSE_S, PAUSES_S, WAITING
from steepest.errors import ClusterError, InputError, RefusedError, SteepestError, UncertainError

JOB = JobSubject("mine", UID)


def notice(number: int) -> Notice:
    """One of many."""
    return Notice(reason="Placed", message=f"number {number}", at_ms=number)


@example("mine", "a" + "ö" * 600, 0, 0)
@given(st.text(), st.text(max_size=3_000), st.integers(), st.integers(0, 1 << 41))
def test_any_words_make_an_event_that_is_taken(name: str, message: str, at_ms: int, now_ms: int) -> None:
    """What a user has written changes neither the Event's name nor its length, and a record's time may be no date."""
    found = event_of(SETTINGS, JobSubject(name, UID), Notice(reason="Placed", message=message, at_ms=at_ms), now_ms)

    assert len(found["note"].encode()) <= 1_024
    assert message.startswith(found["note"])
    assert re.fullmatch(r"steepest-[0-9a-f]{20}", found["metadata"]["name"])
    assert 1970 <= datetime.fromisoformat(found["eventTime"]).year < 2110
    assert msgspec.json.encode(found)


def test_only_the_same_notice_has_the_same_name() -> None:
    """It does not matter when it is written; the Job, the time, the word and the sentence do."""
    one = Notice(reason="Placed", message="on n1", at_ms=5)
    others = [
        (JOB, msgspec.structs.replace(one, message="on n2")),
        (JOB, msgspec.structs.replace(one, reason="Moved")),
        (JOB, msgspec.structs.replace(one, at_ms=6)),
        (JOB, msgspec.structs.replace(one, at_ms=None)),
        (JobSubject("mine", "another"), one),
    ]
    names = {event_of(SETTINGS, job, said, 9)["metadata"]["name"] for job, said in [(JOB, one), *others]}

    assert len(names) == 1 + len(others)
    assert event_of(SETTINGS, JOB, one, 9)["metadata"]["name"] == event_of(SETTINGS, JOB, one, 99)["metadata"]["name"]


async def test_control_characters_are_taken_out() -> None:
    """They would steer the terminal of a user who describes the Job."""
    api = ApiServer()
    async with writing(api) as writer:
        writer.put(JOB, Notice(reason="Placed", message="a\x1b[2J\nb"))
        await api.has_written(1)

    assert api.written[0]["note"] == "a [2J b"


async def test_a_flood_is_cut_and_slowed() -> None:
    """The newest are written, a few a second; putting them does not wait."""
    api = ApiServer()
    async with writing(api) as writer:
        for number in range(WAITING + 44):
            writer.put(JOB, notice(number))
        await api.has_written(WAITING)

    assert [event["note"] for event in api.written] == [f"number {number}" for number in range(44, WAITING + 44)]
    assert min(after - before for before, after in pairwise(api.asked_s)) >= PAUSE_S


async def test_what_may_wait_displaces_nothing() -> None:
    """It comes last, however much of it there is."""
    api = ApiServer()
    async with writing(api) as writer:
        for number in range(WAITING + 1):
            writer.put(JOB, Notice(reason="Limited", message=f"limit {number}"), may_wait=True)
        writer.put(JOB, notice(1))
        await api.has_written(2)

    assert [event["note"] for event in api.written] == ["number 1", "limit 1"]


@pytest.mark.parametrize(
    "failure",
    [
        UncertainError("no answer", code="no-api-server"),
        ClusterError("not reached", code="no-api-server"),
        AnswerError("later", TOO_MANY),
    ],
)
async def test_an_api_server_that_is_away_is_asked_ever_less(failure: SteepestError) -> None:
    """Each pause is longer, and what waits is written when it is back."""
    api = ApiServer()
    api.failure = failure
    async with writing(api) as writer:
        writer.put(JOB, notice(1))
        await asyncio.sleep(sum(PAUSES_S[:2]) + 0.1)
        api.failure = None
        await api.has_written(1)

    assert tuple(round(after - before, 3) for before, after in pairwise(api.asked_s)) == PAUSES_S[:3]


async def test_an_api_server_that_stays_away_costs_what_is_too_old() -> None:
    """An Event is dropped after its last try, and the next one has its own."""
    api = ApiServer()
    api.failure = UncertainError("no answer")
    async with writing(api) as writer:
        writer.put(JOB, notice(1))
        writer.put(JOB, notice(2))
        await asyncio.sleep(sum(PAUSES_S) + PAUSE_S + 0.5)
        api.failure = None
        await api.has_written(1)

    assert [event["note"] for event in api.written] == ["number 2"]
    assert len(api.asked_s) == len(PAUSES_S) + 2


@pytest.mark.parametrize(
    ("failure", "pause_s"),
    [
        (RefusedError("no right", code="forbidden"), PAUSES_S[-1]),
        (InputError("no cluster is configured"), PAUSES_S[-1]),
        (AnswerError("not valid", INVALID), 0.0),
    ],
)
async def test_what_is_refused_is_dropped(failure: SteepestError, pause_s: float) -> None:
    """It is not tried again and ends nothing; where all others would be refused too, they wait."""
    api = ApiServer()
    api.failure = failure
    async with writing(api) as writer:
        writer.put(JOB, notice(1))
        await asyncio.sleep(0.1)
        api.failure = None
        writer.put(JOB, notice(2))
        await api.has_written(1)

    assert [event["note"] for event in api.written] == ["number 2"]
    assert round(api.asked_s[1] - api.asked_s[0], 3) == PAUSE_S + pause_s


async def test_what_is_there_is_no_failure() -> None:
    """The API server has it by that name already; any other refusal is one."""
    api = ApiServer()
    for now_ms in (1, 2):
        await post_event(api, SETTINGS, JOB, notice(1), now_ms)
    api.failure = AnswerError("not valid", INVALID)
    with pytest.raises(AnswerError):
        await post_event(api, SETTINGS, JOB, notice(2), 3)

    assert len(api.written) == 1


async def test_what_a_restart_writes_again_exists_once() -> None:
    """The next one follows without a pause for a failure."""
    api = ApiServer()
    for numbers in ((1,), (1, 2)):
        async with writing(api) as writer:
            for number in numbers:
                writer.put(JOB, notice(number))
            await api.has_written(max(numbers))

    assert [event["note"] for event in api.written] == ["number 1", "number 2"]
    assert round(api.asked_s[2] - api.asked_s[1], 3) == PAUSE_S

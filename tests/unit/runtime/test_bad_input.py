"""Bad input on every topic of the registry is a dead letter or refused, and what is around it counts all the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from tests.harness.system.rig import AT, POOL, Rig, read_all

from steepest.errors import UndecodableError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.dead_letter import DeadLetter
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState
from steepest.events.loss import JobUnwatched, JobWatched, LossReported
from steepest.events.parameters import SpeConParameters
from steepest.events.received import ID, SEQUENCE, SOURCE
from steepest.events.registry import TOPICS, encode
from steepest.log.base import NewRecord, TopicPartition
from steepest.runtime.dead_letters import DEAD_LETTER_BYTES
from steepest.runtime.decode import received
from steepest.runtime.layout import DEAD_LETTERS, Layout

SERVICES = ("placer", "categorizer", "worker-monitor")
PARAMETERS = SpeConParameters(interval_ms=1_000)
LOSS_OF_A = Layout(loss_partitions=2).of_key("loss", "a").partition

UNREADABLE: Mapping[str, tuple[bytes, str]] = {
    "wrong bytes": (b"\xff\xfe\x00", "malformed"),
    "empty": (b"", "truncated"),
    "cut off": (b'{"type":"Lo', "truncated"),
    "no object": (b"[1,2]", "object"),
    "an unknown type": (b'{"type":"JobTeleported","job":"a"}', "JobTeleported"),
    "no type": (b"{}", "type"),
    "huge": (b'{"type":"' + b"x" * 2_000_000 + b'"}', "Invalid value"),
    "nested without end": (b"[" * 100_000, ""),
    "beyond 63 bits": (b'{"type":"Tick","counted_ms":%d}' % 2**63, ""),
}


def of(
    topic: str, event: msgspec.Struct, at_ms: int, number: int | None = None, *, key: str = "a", at: int | None = None
) -> NewRecord:
    """A record of any topic, where job ``a``'s are; numbered by its source where it has a number."""
    headers = {} if number is None else {SOURCE: "s", SEQUENCE: str(number)}
    to = TopicPartition(topic, (LOSS_OF_A if topic == "loss" else 0) if at is None else at)
    return NewRecord(to=to, key=key, value=encode(event), at_ms=at_ms, headers=headers)


# --- what is right, and what it leads to -------------------------------------------------------------------------------


async def a_job_is_admitted(rig: Rig) -> None:
    """The pool's readers go on."""
    name = f"j{await rig.log.end(AT)}"
    await rig.submit(name)
    await until_there(rig, lambda event: isinstance(event, c.JobAdmitted) and event.job == name)


async def growth_is_measured(rig: Rig) -> None:
    """The categorizer goes on: two intervals of job ``a``, whose buckets hold the good reports and no other."""
    good = [
        of("loss", LossReported(job="a", incarnation=2, value=value), at_ms, number)
        for number, (at_ms, value) in enumerate([(20_000, 1.0), (20_500, 2.0), (22_000, 4.0), (24_000, 8.0)], 100)
    ]
    await rig.log.append(good)
    await until_there(rig, lambda event: isinstance(event, c.GrowthMeasured) and event.last_ms == 22_000)
    totals = [event.total for event in await of_type(rig, c.GrowthMeasured)]
    assert totals == [2.0, 4.0]


async def a_node_joins(rig: Rig) -> None:
    """The worker-monitor goes on, and knows the first node as it was."""
    await rig.log.append([of("heartbeats", beat("later"), 1, key="later")])
    await until_there(rig, lambda event: isinstance(event, c.NodeJoined) and event.node == "later")
    assert [one for one in await of_type(rig, c.NodeJoined) if one.node == "n1"] == [
        c.NodeJoined(node="n1", capacity=Resources(cpu_m=300))
    ]
    started = [(one.job, one.incarnation) for one in await of_type(rig, c.ReplicaStarted)]
    assert started == [("a", 2)]


async def a_process_starts(rig: Rig) -> None:
    """Who starts now reads the letters that are there, and works."""
    rig.start("placer")
    await a_job_is_admitted(rig)


GOES_ON: Mapping[str, Callable[[Rig], Awaitable[None]]] = {
    "cluster": a_job_is_admitted,
    "loss": growth_is_measured,
    "heartbeats": a_node_joins,
    "dead-letters": a_process_starts,
}


def beat(node: str, *, incarnation: int = 2, cpu_m: int = 300, pool: str = POOL) -> NodeHeartbeat:
    """A node with one replica of job ``a``; the others have none."""
    replicas = (ReplicaReport(job="a", incarnation=incarnation, state=ReplicaState.RUNNING),) if node == "n1" else ()
    return NodeHeartbeat(node=node, pool=pool, at_ms=5_000, capacity=Resources(cpu_m=cpu_m), replicas=replicas)


async def until_there(rig: Rig, wanted: Callable[[object], bool]) -> None:
    """Wait for an event of the pool."""
    while not any(wanted(one) for one in await readable_events(rig)):
        await rig.clock.sleep(0.01)


async def readable_events(rig: Rig) -> list[Any]:
    """Everything in the pool's log that can be read."""
    found = []
    for record in await read_all(rig.log):
        with suppress(UndecodableError):
            found.append(received(record).event)
    return found


async def of_type(rig: Rig, kind: type) -> list[Any]:
    """All events of one type."""
    return [one for one in await readable_events(rig) if isinstance(one, kind)]


async def begin(rig: Rig) -> None:
    """Job ``a`` is watched in its second incarnation, and runs on node ``n1``."""
    rig.start(*SERVICES)
    watched = JobWatched(job="a", pool=POOL, incarnation=2, metric="loss", parameters=PARAMETERS)
    await rig.log.append([of("loss", watched, 1, 50)])
    await rig.log.append([of("heartbeats", beat("n1"), 1, 50, key="n1")])
    await until_there(rig, lambda event: isinstance(event, c.ReplicaStarted))


async def letters(rig: Rig, topic: str) -> list[DeadLetter]:
    """The letters about a topic, each once."""
    found: dict[str, Any] = {}
    for record in await read_all(rig.log, DEAD_LETTERS):
        with suppress(UndecodableError):
            found[record.headers.get(ID, "")] = received(record).event
    return [one for one in found.values() if isinstance(one, DeadLetter) and one.topic == topic]


# --- the tests ---------------------------------------------------------------------------------------------------------


def test_every_topic_is_looked_at() -> None:
    """A new topic needs its own bad input."""
    assert GOES_ON.keys() == TOPICS.keys()


@pytest.mark.parametrize("bad", UNREADABLE)
@pytest.mark.parametrize("topic", [name for name in GOES_ON if name != "dead-letters"])
async def test_what_cannot_be_read_is_a_letter_with_the_reason(rig: Rig, topic: str, bad: str) -> None:
    """Its letter names place and reason and keeps the bytes; what comes after it counts."""
    value, why = UNREADABLE[bad]
    await begin(rig)
    at = LOSS_OF_A if topic == "loss" else 0
    to = TopicPartition(topic, at)
    offset = await rig.log.end(to)
    await rig.log.append([NewRecord(to=to, key="a", value=value, at_ms=1)])
    await GOES_ON[topic](rig)
    while not await letters(rig, topic):
        await rig.clock.sleep(0.01)
    (letter,) = await letters(rig, topic)

    assert (letter.partition, letter.offset, letter.key, letter.value) == (at, offset, "a", value[:DEAD_LETTER_BYTES])
    assert f"topic {topic}" in letter.reason
    assert why in letter.reason


LATE = LossReported(job="a", incarnation=2, value=99.0)

REFUSED: Mapping[str, Mapping[str, tuple[NewRecord, ...]]] = {
    "cluster": {
        "out of order": (of("cluster", c.Tick(counted_ms=5), 1), of("cluster", c.Tick(counted_ms=4), 1)),
        "an older incarnation": (
            of("cluster", c.ReplicaStopped(job="a", incarnation=1, node="n1", exit_status=0), 1),
            of("cluster", c.ReplicaStopped(job="a", incarnation=0, node="n1", exit_status=0), 1),
        ),
        "another pool's job": (
            of("cluster", c.JobCancelRequested(job="elsewhere", request="r"), 1),
            of("cluster", c.CategoryChanged(job="elsewhere", before="PC", after="CC", growth=0.0), 1),  # type: ignore[arg-type]
        ),
        "a plan that is none": (
            of(
                "cluster",
                c.StepBegun(plan="p", step=c.Step.STOP, attempt=1, job="a", incarnation=2, node="n1"),
                1,
            ),
        ),
    },
    "loss": {
        "out of order": (of("loss", LATE, 20_000, 50), of("loss", LATE, 20_000, 49)),
        "an older incarnation": (of("loss", LossReported(job="a", incarnation=1, value=99.0), 20_000, 60),),
        "another job's key": (of("loss", LATE, 20_000, 60, key="b", at=1 - LOSS_OF_A),),
        "a job that is not watched": (of("loss", LossReported(job="b", incarnation=1, value=99.0), 20_000, 60),),
        "another pool's job": tuple(
            of("loss", event, at_ms, number)
            for number, (at_ms, event) in enumerate(
                [
                    (1, JobWatched(job="b", pool="elsewhere", incarnation=1, metric="loss", parameters=PARAMETERS)),
                    *((at_ms, LossReported(job="b", incarnation=1, value=1.0)) for at_ms in (1, 1_000, 9_000, 20_000)),
                ]
            )
        ),
        "too large to be added": (of("loss", LossReported(job="a", incarnation=2, value=-1e300), 20_000, 60),),
        "a number that is none": (of("loss", LATE, 20_000, -1),),
        "the end of a job that is not watched": (of("loss", JobUnwatched(job="b"), 20_000, 60),),
    },
    "heartbeats": {
        "out of order": (of("heartbeats", beat("n1", cpu_m=1), 1, 49), of("heartbeats", beat("n1", cpu_m=1), 1, 50)),
        "an older incarnation": (of("heartbeats", beat("n1", incarnation=1), 2, 51),),
        "another pool's node": (of("heartbeats", beat("n9", pool="elsewhere"), 2, 51),),
    },
    "dead-letters": {
        "no letter": (
            NewRecord(to=DEAD_LETTERS, key="", value=b"\xff", at_ms=1, headers={ID: "reader/e/cluster/0/-1/x"}),
            NewRecord(to=DEAD_LETTERS, key="", value=b"", at_ms=1, headers={ID: f"reader/e/cluster/0/{'9' * 5_000}/0"}),
        ),
    },
}


@pytest.mark.parametrize(
    ("topic", "bad"), [(topic, name) for topic, cases in REFUSED.items() for name in cases], ids=lambda value: value
)
async def test_what_does_not_count_changes_nothing(rig: Rig, topic: str, bad: str) -> None:
    """It can be read, and is refused for where it stands: no letter, no effect, and what comes after it counts."""
    await begin(rig)
    before = await of_type(rig, c.ReplicaStarted)
    await rig.log.append(REFUSED[topic][bad])
    await GOES_ON[topic](rig)

    assert await letters(rig, topic) == []
    assert await of_type(rig, c.ReplicaStarted) == before
    assert await of_type(rig, c.JobEnded) == []
    assert {one.job for one in await of_type(rig, c.GrowthMeasured)} <= {"a"}

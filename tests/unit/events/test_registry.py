"""What the registry promises: known writers of each event, one spelling, and a clear no to everything else."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from steepest.errors import BugError, UndecodableError
from steepest.events import cluster as c
from steepest.events import registry
from steepest.events.common import Resources
from steepest.events.heartbeat import NodeHeartbeat
from steepest.events.loss import JobUnwatched, LossReported
from steepest.events.registry import (
    CLUSTER,
    FLAGS,
    HEARTBEATS,
    LOSS,
    READS,
    SINCE,
    TOPICS,
    Flag,
    Topic,
    encode,
    reads_for,
)

EVENTS = [(topic, event) for topic in TOPICS.values() for event in topic.types]


@pytest.mark.parametrize("topic", TOPICS.values(), ids=TOPICS.keys())
def test_every_event_has_a_writer_and_every_writer_an_event_of_the_topic(topic: Topic[Any]) -> None:
    """Who may write what is in one place; an event without a writer, or written by none of its topic, is a slip."""
    assert set(topic.writers) == set(topic.types)
    assert all(writer.strip() == writer and writer for writer in topic.writers.values())


def test_only_decisions_and_ends_have_several_writers() -> None:
    """Policies share plans and rejections, worker-monitor and migrator ends of processes, operator and migrator of nodes.

    The placer asks in place of a user where time or another job decides. The migrator names the processes that it has
    ended because the log had lost their starts, the worker-monitor all others; and the nodes that a Kubernetes cluster has
    removed. The categorizer finds what losses show, the watcher what use shows. The
    watcher may close a slow node, as users do. Every other event has one writer.
    """
    shared = {event for topic in TOPICS.values() for event, writer in topic.writers.items() if "," in writer}
    assert shared == {
        c.PlacementPlanned,
        c.JobRejected,
        c.MigrationPlanned,
        c.LimitsPlanned,
        c.ReplicaStopped,
        c.NodeGone,
        c.NodeDrainRequested,
        c.FindingOpened,
        c.FindingEnded,
        c.JobCancelRequested,
        c.JobChangeRequested,
    }


def test_a_pool_asks_for_the_readers_that_its_flags_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag is not on before every reader knows what it changes; one that is unknown asks for nothing."""
    assert reads_for(FLAGS) == reads_for(()) == 1 <= READS
    monkeypatch.setattr(registry, "FLAGS", {7: Flag("Nodes are asked.", since=2), 8: Flag("They answer.", since=3)})
    assert [reads_for(flags) for flags in ([7], [7, 8], [9])] == [2, 3, 1]


def test_events_that_came_later_are_named_with_their_version() -> None:
    """Every version up to ours, and none beyond, brought something that may stand on the cluster topic, or a flag."""
    assert set(SINCE) <= set(CLUSTER.types)
    brought = {1, *SINCE.values(), *(flag.since for flag in FLAGS.values())}
    assert sorted(brought) == list(range(1, READS + 1))


def test_no_two_events_share_a_name() -> None:
    """The name is the tag: a reader of two topics must never take one event for another."""
    named = {event.__name__: event for _, event in EVENTS}
    assert all(named[event.__name__] is event for _, event in EVENTS)


@pytest.mark.parametrize(("topic", "event"), EVENTS, ids=lambda value: getattr(value, "__name__", ""))
def test_every_event_is_frozen_tagged_and_leaves_defaults_out(topic: Topic[Any], event: type[msgspec.Struct]) -> None:
    """An event cannot change, says what it is, and costs no bytes for what it need not say."""
    config = event.__struct_config__
    assert config.frozen
    assert config.omit_defaults
    assert not config.array_like
    assert not config.forbid_unknown_fields
    assert (config.tag_field, config.tag) == ("type", event.__name__)
    assert topic.name in TOPICS


@pytest.mark.parametrize(("topic", "event"), EVENTS, ids=lambda value: getattr(value, "__name__", ""))
def test_every_event_says_what_it_means(topic: Topic[Any], event: type) -> None:
    """The docstring is the event's description in the documents."""
    assert topic.description.endswith(".")
    assert event.__doc__ is not None
    assert event.__doc__.splitlines()[0].endswith((".", "|."))


def test_fields_at_their_default_are_not_encoded() -> None:
    """What is not said is the default, now and in every recording."""
    report = LossReported(job="a", incarnation=1, value=0.5)
    assert encode(report) == b'{"type":"LossReported","job":"a","incarnation":1,"value":0.5}'


def test_an_event_has_one_spelling() -> None:
    """The order in which a mapping was filled does not show in its bytes."""
    one = c.NodeUsage(node="n", used=Resources(cpu_m=1), jobs={"a": 1, "b": 2})
    two = c.NodeUsage(node="n", used=Resources(cpu_m=1), jobs={"b": 2, "a": 1})
    assert encode(one) == encode(two)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_is_refused_at_the_door(value: float) -> None:
    """JSON would say null, and a reader would not know what was meant; also deep within an event."""
    score = c.Because(rule="r", nodes=(c.NodeScore(node="n", score=value),))
    stays = c.StayDecided(job="a", incarnation=1, node="n", because=score)
    for event in (LossReported(job="a", incarnation=1, value=value), stays):
        with pytest.raises(BugError, match=type(event).__name__) as caught:
            encode(event)
        assert caught.value.code == "not-finite"


def test_a_text_that_says_null_is_no_such_number() -> None:
    """Only numbers are refused."""
    assert b"null" in encode(c.JobRejected(job="a", request="r", reason="null"))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "truncated"),
        (b"\xff\xfe", "malformed"),
        (b"[1, 2]", "object"),
        (b'{"job":"a"}', "type"),
        (b'{"type":"NoSuchEvent"}', "NoSuchEvent"),
        (b'{"type":"NodeHeartbeat","node":"n"}', "NodeHeartbeat"),
        (b'{"type":"LossReported","job":"a","incarnation":1}', "value"),
        (b'{"type":"LossReported","job":"a","incarnation":-1,"value":1}', "incarnation"),
        (b'{"type":"LossReported","job":"A b","incarnation":1,"value":1}', "job"),
        pytest.param(b'{"type":"LossReported","job":"a\\n","incarnation":1,"value":1}', "job"),
        (b'{"type":"LossReported","job":"a","incarnation":1,"value":"1"}', "value"),
        (b'{"type":"LossReported","job":"a","incarnation":1,"value":1,"split":"test"}', "split"),
        (b'{"type":"LossReported","job":"a","incarnation":1,"value":NaN}', "malformed"),
        (b'{"type":"LossReported","job":"a","incarnation":1,"value":1e999}', "range"),
        (b"[" * 100_000, ""),
    ],
)
def test_what_is_no_event_is_refused_with_its_topic_and_reason(value: bytes, why: str) -> None:
    """The reader makes a dead letter of it, which must say what is wrong and where."""
    with pytest.raises(UndecodableError, match="topic loss") as caught:
        LOSS.decode(value)
    assert why in str(caught.value)


def test_an_event_of_another_topic_is_none_of_this_one() -> None:
    """Each topic decodes its own events, and the one that opens every partition."""
    assert CLUSTER.decode(encode(c.LogOpened(epoch="e"))) == HEARTBEATS.decode(encode(c.LogOpened(epoch="e")))
    with pytest.raises(UndecodableError):
        HEARTBEATS.decode(encode(JobUnwatched(job="a")))
    with pytest.raises(UndecodableError):
        CLUSTER.decode(encode(NodeHeartbeat(node="n", pool="p", at_ms=1, capacity=Resources())))


def test_fields_of_a_newer_writer_are_skipped() -> None:
    """Forward: a field that this reader does not know is nothing to it, wherever it stands."""
    newer = (
        b'{"type":"JobPlaced","plan":"p","attempt":1,"job":"a","incarnation":1,"node":"n","rack":7,"more":{"deep":[]}}'
    )
    assert CLUSTER.decode(newer) == c.JobPlaced(plan="p", attempt=1, job="a", incarnation=1, node="n")


def test_fields_of_a_newer_reader_have_defaults() -> None:
    """Backward: an old record that says only what it had to is read, and the rest is as it always was."""
    old = b'{"type":"JobSubmitted","job":"a","request":"r","spec":{"command":["train"]}}'
    event = CLUSTER.decode(old)
    assert isinstance(event, c.JobSubmitted)
    assert event.spec == c.JobSpec(command=("train",))
    assert event.spec.metric == "loss"

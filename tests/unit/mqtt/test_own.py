"""Of which node and of which jobs a device may say anything."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.mqtt.messages import beat, loss, said

from steepest.events.heartbeat import NodeHeartbeat
from steepest.mqtt.own import Own
from steepest.mqtt.payload import Message, RefusedMessageError, parse
from steepest.testing.scenarios.folded_pool import FoldedPool, migration

REPLICA = {"job": "job", "incarnation": 1, "state": "exited", "exit_status": 0}


def message(event: dict[str, Any], device: str) -> Message:
    """What a device says."""
    channel = "heartbeats" if event["type"] == "NodeHeartbeat" else "loss"
    return parse("steepest", "default", f"steepest/{device}/{channel}", said(event, device=device))


def heartbeat(node: str, **more: Any) -> NodeHeartbeat:
    """A heartbeat of a device."""
    event = message(beat(node, **more), node).event
    assert isinstance(event, NodeHeartbeat)
    return event


@pytest.mark.parametrize(
    ("beat", "names"),
    [(heartbeat("w1"), "w1 is a node"), (heartbeat("cam7", replicas=[REPLICA]), "nothing is started on cam7")],
)
def test_others_nodes_and_jobs_are_not_a_devices_to_tell_of(beat: NodeHeartbeat, names: str) -> None:
    """A node that has an adapter is heard from it alone, and nothing runs where no adapter is."""
    with pytest.raises(RefusedMessageError, match=names) as refused:
        Own(["w1", "edge-1"], ["edge-1"]).heartbeat(beat)

    assert refused.value.code == "node"


def test_an_agent_is_heard_of_its_node_and_what_runs_there() -> None:
    """Named as one it is its adapter's voice; any other device is heard of its own node."""
    own = Own(["w1", "edge-1"], ["edge-1"])

    agents = heartbeat("edge-1", replicas=[REPLICA], takes_jobs=True)

    assert own.heartbeat(agents) == agents


@pytest.mark.parametrize("said", [{}, {"takes_jobs": True}])
def test_a_device_that_is_no_agent_takes_no_jobs(said: dict[str, bool]) -> None:
    """Whatever it says itself: no adapter could start them, and its capacity would draw them."""
    assert Own(["w1"], []).heartbeat(heartbeat("cam7", **said)).takes_jobs is False


def test_a_job_is_reported_about_by_its_device_and_by_the_agents_where_it_was() -> None:
    """Also after it has moved away, because what it printed there may come late; by no other device ever."""
    pool = FoldedPool(w1=1_000, **{"edge-1": 1_000, "edge-2": 1_000})
    job = pool.run("job", "edge-1", device="cam7")
    own = Own(["w1", "edge-1", "edge-2"], ["edge-1", "edge-2"])
    own.look(pool.view)
    before = len(pool.log)
    pool.fold(migration("job", "edge-1", "w1"))
    pool.carry_out("job")
    for one in pool.log[before:]:
        own.observe(one.event)
    own.go_on_with({})

    for device in ("cam7", "edge-1"):
        own.refuse_others_job(job, message(loss(), device))
    for device in ("w1", "edge-2", "cam8"):
        with pytest.raises(RefusedMessageError, match=f"job is no job of {device}") as refused:
            own.refuse_others_job(job, message(loss(), device))
        assert refused.value.code == "job"

    own.forget(FoldedPool().view)
    assert own.homes == {}


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({"capacity": {"cpu_m": 10**12 + 1}}, r"capacity\.cpu_m"),
        ({"used": {"memory_mib": 2**63 - 1}}, r"used\.memory_mib"),
        ({"replicas": [{**REPLICA, "network_bytes_s": 10**13}]}, r"replicas\[0\]\.network_bytes_s"),
    ],
)
def test_amounts_whose_sum_no_reader_can_hold_are_refused(more: dict[str, Any], names: str) -> None:
    """No machine has as much, and a sum over a pool's nodes stays a number of 63 bits."""
    with pytest.raises(RefusedMessageError, match=names):
        heartbeat("cam7", **more)

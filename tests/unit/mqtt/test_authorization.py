"""About which node and which jobs a device may report."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.scenarios.folded_pool import FoldedPool, migration
from tests.unit.mqtt.messages import beat, envelope, loss

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.heartbeat import NodeHeartbeat
from steepest.mqtt import authorization as authorization_module
from steepest.mqtt.authorization import Authorization
from steepest.mqtt.payload import DeviceMessage, RefusedMessageError, parse
from steepest.view.folds.fold_pool import GONE_MS

REPLICA = {"job": "job", "incarnation": 1, "state": "exited", "exit_status": 0}


def message(event: dict[str, Any], device: str) -> DeviceMessage:
    """A message of a device."""
    channel = "heartbeats" if event["type"] == "NodeHeartbeat" else "loss"
    return parse("steepest", "default", f"steepest/{device}/{channel}", envelope(event, device=device))


def heartbeat(node: str, **more: Any) -> NodeHeartbeat:
    """A heartbeat of a device."""
    event = message(beat(node, **more), node).event
    assert isinstance(event, NodeHeartbeat)
    return event


@pytest.mark.parametrize(
    ("beat", "names"),
    [(heartbeat("w1"), "w1 is a node"), (heartbeat("cam7", replicas=[REPLICA]), "nothing is started on cam7")],
)
def test_a_device_reports_only_its_own_node(beat: NodeHeartbeat, names: str) -> None:
    """A node with an adapter is heard from the adapter only, and nothing runs where there is no adapter."""
    with pytest.raises(RefusedMessageError, match=names) as refused:
        Authorization(["w1", "edge-1"], ["edge-1"]).authorize_heartbeat(beat, FoldedPool().view)

    assert refused.value.code == "node"


def test_an_agent_reports_its_node_and_what_runs_there() -> None:
    """Its heartbeat is appended unchanged, with the replicas on its node."""
    authorization = Authorization(["w1", "edge-1"], ["edge-1"])

    agents = heartbeat("edge-1", replicas=[REPLICA], takes_jobs=True)

    assert authorization.authorize_heartbeat(agents, FoldedPool().view) == agents


@pytest.mark.parametrize("more", [{}, {"takes_jobs": True}])
def test_a_device_that_is_no_agent_takes_no_jobs(more: dict[str, bool]) -> None:
    """Also where its heartbeat claims to: no adapter could start them, and its capacity would attract them."""
    assert (
        Authorization(["w1"], []).authorize_heartbeat(heartbeat("cam7", **more), FoldedPool().view).takes_jobs is False
    )


def test_devices_that_somebody_makes_up_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are known go on; a new one is refused until one was silent for a day, however fast names come."""
    monkeypatch.setattr(authorization_module, "DEVICES_MOST", 3)
    pool, authorization = FoldedPool(w1=1_000), Authorization(["w1"], [])

    def hear(device: str) -> str:
        try:
            authorization.authorize_heartbeat(heartbeat(device), pool.view)
        except RefusedMessageError as refused:
            return refused.code
        return ""

    assert [hear(f"cam{number}") for number in range(5)] == ["", "", "", "devices", "devices"]
    for number in range(3):
        pool.fold(c.NodeJoined(node=f"cam{number}", capacity=Resources(1_000), takes_jobs=False))
    assert [hear(f"cam{number}") for number in range(5)] == ["", "", "", "devices", "devices"]
    pool.feed(c.PoolConfigured(), c.NodeLost(node="cam0", silent_ms=15_000))
    pool.tick(GONE_MS)

    assert [hear("cam4"), hear("cam3"), hear("cam1")] == ["", "devices", ""]


def test_a_job_is_reported_about_by_its_device_and_by_the_agents_where_it_was() -> None:
    """Also after it has moved away, because what it printed there may arrive late; and by no other device."""
    pool = FoldedPool(w1=1_000, **{"edge-1": 1_000, "edge-2": 1_000})
    job = pool.run("job", "edge-1", device="cam7")
    authorization = Authorization(["w1", "edge-1", "edge-2"], ["edge-1", "edge-2"])
    authorization.index(pool.view)
    before = len(pool.log)
    pool.fold(migration("job", "edge-1", "w1"))
    pool.carry_out("job")
    for one in pool.log[before:]:
        authorization.observe(one.event)
    authorization.restore({})

    for device in ("cam7", "edge-1"):
        authorization.authorize_report(job, message(loss(), device))
    for device in ("w1", "edge-2", "cam8"):
        with pytest.raises(RefusedMessageError, match=f"job is no job of {device}") as refused:
            authorization.authorize_report(job, message(loss(), device))
        assert refused.value.code == "job"

    authorization.forget_jobs_unknown_to(FoldedPool().view)
    assert authorization.agents_of == {}


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

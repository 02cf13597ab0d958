"""Engines' statistics, states and addresses translated into the port's terms; unexpected answers do not raise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from steepest.cluster.docker.addresses import HERE, addresses
from steepest.cluster.docker.container import observed, quota_us, shares, updates
from steepest.cluster.docker.stats import Sample, sample_of, use_between
from steepest.cluster.folders.replica_roster import ResourceUse
from steepest.cluster.port import ReplicaPhase
from steepest.errors import InputError
from steepest.events.common import LARGEST, Resources

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=10,
)
COUNT = st.integers(0, 2**63)


def said(**changes: Any) -> dict[str, Any]:
    """A line of statistics as an engine on control groups of version 2 says it."""
    return {
        "read": "2026-11-21T14:57:58.077870616Z",
        "cpu_stats": {"cpu_usage": {"total_usage": 3_000_000_000}},
        "memory_stats": {"usage": 300 << 20, "stats": {"inactive_file": 100 << 20}},
        "blkio_stats": {"io_service_bytes_recursive": [{"op": "read", "value": 10}, {"op": "write", "value": 5}]},
        "networks": {"eth0": {"rx_bytes": 7, "tx_bytes": 8}},
        **changes,
    }


def test_a_sample_has_what_the_engine_counts() -> None:
    """CPU in seconds, memory without what the kernel can drop, and bytes of both directions."""
    sample = sample_of(json.dumps(said()).encode())

    assert sample is not None
    assert (sample.cpu_s, sample.memory_mib, sample.block_bytes, sample.network_bytes) == (3.0, 200, 15, 15)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"blkio_stats": {"io_service_bytes_recursive": []}}, "block_bytes"),
        ({"blkio_stats": {"io_service_bytes_recursive": None}}, "block_bytes"),
        ({"blkio_stats": {}}, "block_bytes"),
        ({"networks": None}, "network_bytes"),
        ({"networks": {}}, "network_bytes"),
        ({"memory_stats": {}}, "memory_mib"),
    ],
)
def test_what_an_engine_does_not_count_is_unknown(changes: dict[str, Any], name: str) -> None:
    """It is None, and never 0."""
    sample = sample_of(json.dumps(said(**changes)).encode())

    assert sample is not None
    assert getattr(sample, name) is None


def test_what_a_container_has_received_is_what_it_has_read() -> None:
    """Over all of its networks, since its start; unknown where it has none, or the engine counts less than nothing."""
    two = {"eth0": {"rx_bytes": 7, "tx_bytes": 8}, "eth1": {"rx_bytes": 5, "tx_bytes": 0}}
    cases = ((two, 12), (None, None), ({"eth0": {"rx_bytes": -7}}, None), ({"eth0": {"rx_bytes": 2**70}}, LARGEST))
    for networks, read in cases:
        sample = sample_of(json.dumps(said(networks=networks)).encode())
        if sample is not None:
            assert use_between(sample, sample).read_bytes == read


def test_an_ended_container_has_no_sample() -> None:
    """An engine keeps sending zeros for it."""
    line = said(read="0001-01-01T00:00:00Z", cpu_stats={"cpu_usage": {"total_usage": 0}}, memory_stats={})

    assert sample_of(json.dumps(line).encode()) is None


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_line_is_a_sample_or_none(line: bytes) -> None:
    """No line raises."""
    assert isinstance(sample_of(line), Sample | None)


@given(st.sampled_from(sorted(said())), JSON)
def test_any_field_may_be_anything(name: str, value: object) -> None:
    """A field of another shape makes the line none that counts, or is unknown; a rate is never negative."""
    before, after = sample_of(json.dumps(said()).encode()), sample_of(json.dumps(said(**{name: value})).encode())
    assert before is not None
    if after is not None:
        use = use_between(before, after)
        assert all(
            one is None or one >= 0
            for one in (use.cpu_m, use.memory_mib, use.block_bytes_s, use.network_bytes_s, use.read_bytes)
        )


@given(COUNT, COUNT, st.floats(0.001, 1000))
def test_use_is_what_was_counted_by_the_time(first: int, last: int, span_s: float) -> None:
    """A counter that has fallen was reset: the usage is unknown."""
    before, after = (
        Sample(at_s=at_s, cpu_s=None, memory_mib=None, block_bytes=count, network_bytes=None)
        for at_s, count in ((0.0, first), (span_s, last))
    )

    assert use_between(before, after) == ResourceUse(
        block_bytes_s=None if last < first else round((last - first) / span_s)
    )


def test_cpu_time_is_the_engines_own_count() -> None:
    """In milliseconds since the container started, not since the sample before."""
    before, after = (
        Sample(at_s=at_s, cpu_s=cpu_s, memory_mib=None, block_bytes=None, network_bytes=None)
        for at_s, cpu_s in ((0.0, 4.0), (2.0, 5.5))
    )
    assert use_between(before, after) == ResourceUse(cpu_m=750, cpu_ms=5_500)


def test_a_cap_beyond_the_node_is_none_and_the_smallest_is_what_the_kernel_takes() -> None:
    """No group may have more than its parent."""
    assert [quota_us(limit_m, 800) for limit_m in (None, 900, 800, 799, 10, 1)] == [-1, -1, -1, 79_900, 1000, 1000]


def test_a_soft_limit_is_a_weight_among_the_containers_of_the_node() -> None:
    """A quarter of the node weighs a quarter of what has no limit, whose weight is the engine's default; never nothing."""
    assert [shares(limit_m, 800) for limit_m in (None, 900, 800, 200, 10, 1)] == [1024, 1024, 1024, 256, 12, 2]
    assert updates(200, UNSET, {}, Resources(cpu_m=800), soft=True) == {"cpu_shares": 256}


def test_memory_is_told_only_where_it_changes() -> None:
    """No engine removes a memory limit, so where there was one, no limit becomes the machine's whole memory."""
    machine = Resources(cpu_m=2000, memory_mib=1000)
    limits = [
        updates(None, limit_mib, {"Memory": has}, machine, soft=False).get("mem_limit")
        for limit_mib, has in ((UNSET, 0), (UNSET, 5), (None, 0), (None, 5), (64, 0))
    ]

    assert limits == [None, None, None, 1000 << 20, 64 << 20]


@pytest.mark.parametrize(
    ("status", "code", "seen", "phase", "exit_status"),
    [
        ("created", 127, False, ReplicaPhase.STARTING, None),
        ("running", 0, False, ReplicaPhase.RUNNING, None),
        ("paused", 0, False, ReplicaPhase.RUNNING, None),
        ("restarting", 1, False, ReplicaPhase.RUNNING, None),
        ("removing", 0, False, ReplicaPhase.RUNNING, None),
        ("exited", 0, False, ReplicaPhase.EXITED, 0),
        ("exited", 85, True, ReplicaPhase.EXITED, 85),
        ("exited", 137, True, ReplicaPhase.EXITED, -9),
        ("exited", 143, True, ReplicaPhase.EXITED, -15),
        ("exited", 85, False, ReplicaPhase.GONE, None),
        ("exited", 137, False, ReplicaPhase.GONE, None),
        ("exited", 143, False, ReplicaPhase.GONE, None),
        ("dead", 3, False, ReplicaPhase.EXITED, 3),
        ("exited", 255, False, ReplicaPhase.GONE, None),
        ("exited", 255, True, ReplicaPhase.EXITED, 255),
        ("something new", 0, False, ReplicaPhase.RUNNING, None),
    ],
)
def test_a_state_is_what_is_surely_so(
    status: str,
    code: int,
    seen: bool,  # noqa: FBT001 - a column of the table
    phase: ReplicaPhase,
    exit_status: int | None,
) -> None:
    """A container runs until its end is known; a status that comes from engines counts only if the engine runs on."""
    observation = observed({"Status": status, "ExitCode": code}, lambda: seen)

    assert (observation.phase, observation.exit_status) == (phase, exit_status)
    assert bool(observation.reason) is (observation.phase is ReplicaPhase.GONE)


@pytest.mark.parametrize(
    ("code", "outlived", "status", "is_memory"),
    [
        (137, True, -9, True),
        (1, True, 1, True),
        (0, True, 0, False),
        (85, True, 85, False),
        (143, True, -15, False),
        (137, False, None, False),
        (143, False, None, False),
    ],
)
def test_memory_is_the_cause_only_of_an_end_that_it_can_have(
    code: int,
    outlived: bool,  # noqa: FBT001 - a column of the table
    status: int | None,
    is_memory: bool,  # noqa: FBT001 - likewise
) -> None:
    """An engine notes that any process ran out of memory, also one of a container that trained on for hours."""
    observation = observed({"Status": "exited", "ExitCode": code, "OOMKilled": True}, lambda: outlived)

    assert observation.exit_status == status
    assert (observation.reason == "it ran out of memory") is is_memory


def test_engines_are_named_as_docker_s_own_client_has_it() -> None:
    """Without a name it is the environment's, else the one here; a bare name is reached by SSH; TLS is for TCP alone."""
    tls = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/keys"}

    assert addresses("", {}) == [(HERE, None)]
    assert addresses("", {"DOCKER_HOST": "tcp://a:2376", **tls}) == [("tcp://a:2376", "/keys")]
    assert addresses("gpu1, unix:///x", tls) == [("ssh://gpu1", None), ("unix:///x", None)]
    with pytest.raises(InputError):
        addresses("gpu1,ssh://gpu1", {})

"""Gangs that run at the same time share no port, and keep theirs across adapters, while others start and end."""

from __future__ import annotations

import json
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.cluster.folders.adapter_folder import AdapterFolder, ExitRecord, spec_record
from steepest.cluster.folders.gang_ports import GangPorts, PortTable, is_unused
from steepest.cluster.gang_variables import GangAddresses, gang_variables
from steepest.cluster.port import GangPlace, ReplicaId, ReplicaSpec
from steepest.errors import RefusedError

PORTS = range(20_000, 20_012)


def table(state: AdapterFolder, *used: int) -> PortTable:
    """A table of few ports, some of which are used by other programs."""
    return PortTable(state, usable=lambda port: port not in used, ports=PORTS)


def begin(state: AdapterFolder, job: str, incarnation: int, world_size: int) -> None:
    """Make the folders that the starts of a gang make."""
    for index in range(world_size):
        state.incarnation(ReplicaId(job, index), incarnation).make(spec_record("n1", ReplicaSpec(command=("x",))))


def end(state: AdapterFolder, job: str, incarnation: int) -> None:
    """Record the ends of a gang."""
    for replica in state.replicas(job):
        folder = state.incarnation(replica, incarnation)
        if folder.path.exists():
            folder.write(folder.exit, ExitRecord(status=0))


@pytest.fixture
def state(tmp_path: Path) -> AdapterFolder:
    """An empty state folder."""
    made = AdapterFolder(tmp_path)
    made.make()
    return made


def test_an_incarnation_has_the_same_ports_for_all_its_processes(state: AdapterFolder) -> None:
    """The second process of a gang gets what the first got, from a new adapter too; the next incarnation gets others."""
    first = table(state).reserve("mnist", 1, 2)
    begin(state, "mnist", 1, 2)

    assert table(state).reserve("mnist", 1, 2) == first
    assert not set(table(state).reserve("mnist", 2, 2).all) & set(first.all)


def test_ports_are_free_again_after_the_last_end(state: AdapterFolder) -> None:
    """While one process of a gang is not proven ended, its ports are taken; afterwards another gang gets them."""
    table(state).reserve("a", 1, 7)
    begin(state, "a", 1, 7)
    with pytest.raises(RefusedError, match="no 8 adjacent free ports from 20000 to 20011") as refusal:
        table(state).reserve("b", 1, 7)
    end(state, "a", 1)

    assert refusal.value.code == "no-free-ports"
    assert table(state).reserve("b", 1, 7).world_size == 7


def test_a_partial_start_keeps_its_ports(state: AdapterFolder) -> None:
    """A gang whose other processes may still be started keeps its ports, even if the first process has ended."""
    table(state).reserve("a", 1, 7)
    begin(state, "a", 1, 1)
    end(state, "a", 1)
    with pytest.raises(RefusedError):
        table(state).reserve("b", 1, 7)

    begin(state, "a", 2, 1)
    assert table(state).reserve("b", 1, 7).world_size == 7


def test_a_forgotten_gang_has_no_ports(state: AdapterFolder) -> None:
    """After forget, ports are free."""
    table(state).reserve("a", 1, 11)
    begin(state, "a", 1, 11)
    state.retire("a")

    assert table(state).reserve("b", 1, 11).world_size == 11


def test_ports_in_use_are_skipped(state: AdapterFolder) -> None:
    """Ports at which other programs listen are not assigned."""
    used = (20_001, 20_004, 20_010)

    assert table(state, *used).reserve("a", 1, 4) == GangPorts("a", 1, 20_005, 4)


def test_a_listening_socket_uses_its_port() -> None:
    """A port at which something listens is in use, on any address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not is_unused(server.getsockname()[1])


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"next":-1}', b'{"next":0,"gangs":[{"job":"../x"}]}'])
def test_a_damaged_table_is_replaced(state: AdapterFolder, damage: bytes) -> None:
    """A table that cannot be read counts as empty: a start does not fail because of it."""
    state.gang_ports.write_bytes(damage)

    assert table(state).reserve("a", 1, 2).world_size == 2


@given(
    st.lists(
        st.tuples(st.sampled_from(["start", "end", "forget"]), st.sampled_from(["a", "b", "c"]), st.integers(1, 4)),
        max_size=20,
    )
)
def test_running_gangs_share_no_port(acts: list[tuple[str, str, int]]) -> None:
    """While gangs start, end and are forgotten, two that run have no port in common, and each has all of its own."""
    with tempfile.TemporaryDirectory() as folder:
        state = AdapterFolder(Path(folder))
        state.make()
        incarnations: dict[str, int] = {}
        running: dict[str, GangPorts] = {}
        for act, job, world_size in acts:
            if act == "start" and job not in running:
                incarnation = incarnations.get(job, 0) + 1
                try:
                    running[job] = table(state).reserve(job, incarnation, world_size)
                except RefusedError:
                    continue
                begin(state, job, incarnation, world_size)
                incarnations[job] = incarnation
            elif act != "start" and job in running:
                del running[job]
                end(state, job, incarnations[job])
                if act == "forget":
                    state.retire(job)
                    del incarnations[job]
            ports = [port for gang in running.values() for port in gang.all]
            assert len(ports) == len(set(ports))
            assert set(ports) <= set(PORTS)


def test_the_variables_of_frameworks() -> None:
    """PyTorch's and TensorFlow's variables of one process of a gang of two roles on two nodes."""
    place = GangPlace(
        role="worker", role_index=1, rank=2, world_size=3, nodes=("n1", "n2", "n2"), roles=(("ps", 1), ("worker", 2))
    )
    addresses = GangAddresses(("10.0.0.1", "10.0.0.2", "10.0.0.2"), (20_000, 20_001, 20_002), 20_003)
    variables = gang_variables(place, addresses)

    assert json.loads(variables.pop("TF_CONFIG")) == {
        "cluster": {"ps": ["10.0.0.1:20000"], "worker": ["10.0.0.2:20001", "10.0.0.2:20002"]},
        "task": {"type": "worker", "index": 1},
    }
    assert variables == {
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "20003",
        "RANK": "2",
        "WORLD_SIZE": "3",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "STEEPEST_ROLE": "worker",
        "STEEPEST_ROLE_INDEX": "1",
        "STEEPEST_RANK": "2",
        "STEEPEST_WORLD_SIZE": "3",
        "STEEPEST_PEERS": "10.0.0.1:20000,10.0.0.2:20001,10.0.0.2:20002",
    }
    with_gpus = gang_variables(place, addresses, own_gpus=True)
    # It sees its own devices alone, as cuda:0 and so on; `set_device(LOCAL_RANK)` must find one of them.
    assert (with_gpus["LOCAL_RANK"], with_gpus["LOCAL_WORLD_SIZE"], with_gpus["RANK"]) == ("0", "1", "2")

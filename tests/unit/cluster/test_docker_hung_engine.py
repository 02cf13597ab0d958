"""Engines that never answer, as over SSH to a machine without power, and what answers and is no engine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.harness.waiting import until

from steepest.cluster.docker import docker_background
from steepest.cluster.docker.docker_background import DockerBackground, DockerTracked
from steepest.cluster.docker.host import DockerNode, Host
from steepest.cluster.folders.adapter_folder import AdapterFolder, spec_record
from steepest.cluster.folders.background import AdapterSettings
from steepest.cluster.folders.replica_roster import Roster
from steepest.cluster.observation import Observation
from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaSpec
from steepest.events.common import Resources

SIZE = Resources(cpu_m=1000)
SOON_S = 0.05


class SlowHost:
    """An engine that answers once it may."""

    def __init__(self, name: str, *, answers: bool) -> None:
        self.node = DockerNode(name=name, url="ssh://gpu1", capacity=SIZE)
        self.is_up = True
        self.may_answer = asyncio.Event()
        if answers:
            self.may_answer.set()

    async def run(self, act: Callable[[], Any]) -> Any:
        """Do it here, later."""
        await self.may_answer.wait()
        return act()

    def ping(self) -> bool:
        """It answers."""
        self.is_up = True
        return True

    def lose(self) -> None:
        """It does not."""
        self.is_up = False

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., DockerBackground]:
    """Makes the tasks over two engines, which both know a container that runs."""
    state = AdapterFolder(tmp_path)
    state.make()
    monkeypatch.setattr(docker_background, "observe", lambda *_: Observation(phase=ReplicaPhase.RUNNING))
    monkeypatch.setattr(docker_background, "present", lambda *_: {})
    monkeypatch.setattr(docker_background, "Events", lambda *_: SimpleNamespace(renew=lambda: None, close=lambda: None))
    monkeypatch.setattr(docker_background, "LOOK_S", SOON_S)
    monkeypatch.setattr(docker_background, "PING_S", SOON_S)

    def make(*hosts: SlowHost) -> DockerBackground:
        for host in hosts:
            folder = state.incarnation(ReplicaId(f"on-{host.node.name}"), 1)
            folder.make(spec_record(host.node.name, ReplicaSpec(command=("true",))))
        roster = Roster(state, DockerTracked)
        roster.load()
        sizes = {host.node.name: SIZE for host in hosts}
        settings = AdapterSettings(state=state, capacities=sizes, pool="test", heartbeat_s=SOON_S, events=False)
        known = {host.node.name: cast("Host", host) for host in hosts}
        return DockerBackground(settings, roster, known, "label")

    return make


async def test_an_engine_that_hangs_delays_no_other_one(
    engine: Callable[..., DockerBackground],
) -> None:
    """The others are observed, it counts as away, and what it says in the end is noted."""
    hung = SlowHost("hung", answers=False)
    background = engine(hung, SlowHost("good", answers=True))

    def phases() -> dict[str, ReplicaPhase]:
        return {each.node: each.seen.phase for each in background.roster.all()}

    async with asyncio.timeout(60):
        await background.open()
        try:
            assert phases() == {"good": ReplicaPhase.RUNNING, "hung": ReplicaPhase.STARTING}
            assert (background.answers("good"), background.answers("hung")) == (True, False)
            hung.may_answer.set()
            await until(lambda: background.answers("hung") and phases()["hung"] is ReplicaPhase.RUNNING)
        finally:
            await background.close()


class Client:
    """What a client of an engine asks, with the engine's words."""

    def __init__(self, **said: Any) -> None:
        self.said = said

    def ping(self) -> bool:
        """Any web server may answer this."""
        return True

    def info(self) -> dict[str, Any]:
        """Its description of itself."""
        return self.said

    def networks(self, **_: Any) -> list[Any]:
        """It has none."""
        return []


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    """What answers at the address."""
    found = Client()
    monkeypatch.setattr(Host, "client", lambda *_: found)
    return found


@pytest.fixture
def host() -> Iterator[Host]:
    """That address."""
    with contextlib.closing(Host(DockerNode(name="a", url="tcp://a:2375", capacity=SIZE))) as made:
        yield made


def test_what_is_no_engine_is_away(host: Host, client: Client) -> None:
    """Its answer ends no task that looks for it."""
    client.said = {"SystemTime": "soon"}
    assert not host.ping()
    client.said = {}
    assert not host.ping()


def test_an_engine_that_was_away_is_asked_who_it_is(host: Host, client: Client) -> None:
    """One with other data may have its address now, and a container's record names its engine."""
    client.said = {"ID": "one", "MemTotal": 0, "NCPU": 1, "SystemTime": "2026-01-01T00:00:00Z"}
    assert host.ping()
    assert host.info().id == "one"
    host.lose()
    client.said |= {"ID": "two"}
    assert host.ping()

    assert host.info().id == "two"

"""A start that was interrupted, and is completed: no lookup in between takes the incarnation for ended."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import docker
import pytest
from docker.errors import NotFound

from steepest.cluster.docker.container import ContainerRecord, record_of
from steepest.cluster.docker.host import Host
from steepest.cluster.docker.launch import _remove_unless_it_runs, remove
from steepest.cluster.docker.observe import observe
from steepest.cluster.folders.adapter_folder import IncarnationFolder
from steepest.cluster.port import ReplicaId, ReplicaPhase

LABEL = "a-label"


class Engine:
    """One container, made and never started; it looks at the incarnation the moment it has removed that."""

    def __init__(self, folder: IncarnationFolder) -> None:
        self.folder = folder
        self.there = True
        self.seen: list[ReplicaPhase] = []

    def inspect_container(self, _: str) -> dict[str, Any]:
        """The engine's description of it."""
        if not self.there:
            raise NotFound("no such container")
        labels = {"steepest.cluster": LABEL}
        return {"Id": "made", "State": {"Running": False, "Status": "created"}, "Config": {"Labels": labels}}

    def remove_container(self, _: str, *, v: bool = False, force: bool) -> None:
        """Remove it with its volumes, and run a lookup before another one is created."""
        assert v
        assert force
        self.there = False
        self.seen.append(observe(self.host, self.folder, LABEL).phase)

    @property
    def host(self) -> Host:
        """The engine, as a lookup sees it."""

        @contextlib.contextmanager
        def looking() -> Iterator[None]:
            yield

        known = SimpleNamespace(id="engine")
        found = SimpleNamespace(
            client=lambda *_: self, looking=looking, acting=lambda _: looking(), info=lambda **_: known
        )
        return cast("Host", found)


@pytest.mark.parametrize("recorded", [True, False])
def test_what_is_made_again_is_not_taken_for_ended(tmp_path: Path, *, recorded: bool) -> None:
    """Between the container that never ran and the one in its place, the incarnation is starting."""
    folder = IncarnationFolder(tmp_path, ReplicaId("job"), 1)
    if recorded:
        folder.write(record_of(folder), ContainerRecord(id="made", engine="engine"))
    engine = Engine(folder)

    _remove_unless_it_runs(cast("docker.APIClient", engine), folder, LABEL)

    assert engine.seen == [ReplicaPhase.STARTING]


def test_a_container_leaves_no_volume(tmp_path: Path) -> None:
    """One without a name, which an image asks for, would stay with each container, until the engine's disk is full."""
    engine = Engine(IncarnationFolder(tmp_path, ReplicaId("job"), 1))

    remove(engine.host, "made", LABEL)

    assert not engine.there

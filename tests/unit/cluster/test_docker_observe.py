"""Observations of a container while another process starts or removes it, by an engine with a known order of answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from docker.errors import NotFound

from steepest.cluster.docker.container import ContainerRecord, record_of
from steepest.cluster.docker.host import EngineInfo, Host
from steepest.cluster.docker.observe import observe
from steepest.cluster.folders.adapter_folder import AdapterFolder, ExitRecord, IncarnationFolder, spec_record
from steepest.cluster.observation import recorded_end
from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaSpec
from steepest.events.common import Resources

ID = "c0ffee"
ENGINE = EngineInfo(id="engine", capacity=Resources(), has_bridge=False)


class ScriptedHost:
    """An engine that knows some containers; what ``meanwhile`` does happens right after its first answer."""

    def __init__(self, meanwhile: Callable[[ScriptedHost], None]) -> None:
        self.states: dict[str, dict[str, Any]] = {}
        self._meanwhile: Callable[[ScriptedHost], None] | None = meanwhile

    def client(self, _timeout_s: float) -> ScriptedHost:
        """It is its own client."""
        return self

    def outlived(self, container: str) -> bool:
        """It never stops."""
        return bool(container)

    def info(self, **_: bool) -> EngineInfo:
        """Itself."""
        return ENGINE

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """It always answers."""
        yield

    def inspect_container(self, name: str) -> dict[str, Any]:
        """What the engine knows at the time of the call."""
        state = self.states.get(name)
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile(self)
        if state is None:
            raise NotFound(f"no such container: {name}")
        return {"Id": ID, "State": state}


def folder_in(path: Path) -> IncarnationFolder:
    """The folder of an incarnation that is being started."""
    folder = AdapterFolder(path).incarnation(ReplicaId("job"), 1)
    folder.make(spec_record("node", ReplicaSpec(command=("true",))))
    return folder


def seen(folder: IncarnationFolder, meanwhile: Callable[[ScriptedHost], None]) -> ReplicaPhase:
    """The observation of it."""
    return observe(cast("Host", ScriptedHost(meanwhile)), folder, "label").phase


def test_a_container_that_is_made_while_it_is_looked_at_is_not_gone(tmp_path: Path) -> None:
    """It was not there at the first look and is on record at the second: the start that goes on is no loss."""
    folder = folder_in(tmp_path)

    def start(host: ScriptedHost) -> None:
        host.states[ID] = {"Status": "running"}
        folder.write(record_of(folder), ContainerRecord(id=ID, engine=ENGINE.id))

    assert seen(folder, start) is ReplicaPhase.RUNNING
    assert recorded_end(folder) is None


def test_a_container_that_is_removed_after_its_end_was_put_on_record_has_ended(tmp_path: Path) -> None:
    """Another adapter has finished it between the looks."""
    folder = folder_in(tmp_path)
    folder.write(record_of(folder), ContainerRecord(id=ID, engine=ENGINE.id))

    assert seen(folder, lambda _: folder.write(folder.exit, ExitRecord(status=3))) is ReplicaPhase.EXITED


def test_a_container_removed_by_another_process_is_gone(tmp_path: Path) -> None:
    """It was on record before the first look, and is nowhere."""
    folder = folder_in(tmp_path)
    folder.write(record_of(folder), ContainerRecord(id=ID, engine=ENGINE.id))

    assert seen(folder, lambda _: None) is ReplicaPhase.GONE
    assert recorded_end(folder) is not None

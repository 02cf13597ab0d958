"""An error that one incarnation causes stays with it, on Docker and on Kubernetes; that of the local cluster: its inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from steepest.cluster.docker import docker_background
from steepest.cluster.docker.docker_background import DockerBackground, DockerTracked
from steepest.cluster.docker.host import Host
from steepest.cluster.folders.adapter_folder import AdapterFolder, IncarnationFolder, spec_record
from steepest.cluster.folders.background import AdapterSettings, Background
from steepest.cluster.folders.replica_roster import ResourceUse, Roster
from steepest.cluster.kubernetes import kubernetes_background
from steepest.cluster.kubernetes.api import KubernetesApi
from steepest.cluster.kubernetes.kubernetes_background import KubernetesBackground
from steepest.cluster.kubernetes.pod_observer import KubernetesTracked, PodRecord, record_of
from steepest.cluster.observation import Observation
from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaSpec
from steepest.errors import UncertainError
from steepest.events.common import Resources
from steepest.events.heartbeat import ReplicaState

BAD, GOOD = ReplicaId("bad"), ReplicaId("good")
NODE = "a"
USE = ResourceUse(cpu_m=7)


class Story:
    """Both run, and then each look at one of them raises an error, while the other one ends.

    Attributes:
        error: What it causes.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.has_ended = False

    def observe(self, folder: IncarnationFolder) -> Observation:
        """The state of one of them."""
        self.meet(folder)
        if self.has_ended and folder.replica == GOOD:
            return Observation(phase=ReplicaPhase.EXITED, exit_status=0)
        return Observation(phase=ReplicaPhase.RUNNING)

    def meet(self, folder: IncarnationFolder) -> None:
        """Anything that is done about one of them."""
        if self.error is not None and folder.replica == BAD:
            raise self.error


@pytest.fixture
def story() -> Story:
    """What happens."""
    return Story()


@pytest.fixture
def settings(tmp_path: Path) -> AdapterSettings:
    """An adapter's, with the folders of both."""
    state = AdapterFolder(tmp_path)
    state.make()
    for replica in (BAD, GOOD):
        folder = state.incarnation(replica, 1)
        folder.make(spec_record(NODE, ReplicaSpec(command=("true",))))
        folder.write(record_of(folder), PodRecord(name=replica.job, uid=replica.job))
    return AdapterSettings(
        state=state,
        capacities={NODE: Resources(cpu_m=1000)},
        pool="test",
        heartbeat_s=0.05,
        events=False,
    )


class LazyHost:
    """An engine that answers, and is asked nothing."""

    is_up = True
    close = staticmethod(lambda: None)

    async def run(self, act: Callable[[], Any]) -> Any:
        """Do it here."""
        return act()


def on_docker(settings: AdapterSettings, story: Story, monkeypatch: pytest.MonkeyPatch) -> Background[Any]:
    """The Docker adapter's tasks, over an engine that knows both."""
    roster = Roster(settings.state, DockerTracked)
    roster.load()
    background = DockerBackground(settings, roster, {NODE: cast("Host", LazyHost())}, "label")

    def use_of(_: Host, name: str) -> Any:
        tracked = next(each for each in roster.all() if each.folder.replica.job in name)

        def use() -> ResourceUse:
            story.meet(tracked.folder)
            return USE

        return SimpleNamespace(use=use, close=lambda: None, is_over=False)

    def copies(_: Host, folder: IncarnationFolder, __: str) -> Any:
        story.meet(folder)
        return SimpleNamespace(close=lambda: None, is_over=True)

    monkeypatch.setattr(docker_background, "observe", lambda _, folder, __: story.observe(folder))
    monkeypatch.setattr(docker_background, "present", lambda *_: {})
    monkeypatch.setattr(docker_background, "Stats", use_of)
    monkeypatch.setattr(docker_background, "Output", copies)
    return background


def on_kubernetes(settings: AdapterSettings, story: Story, monkeypatch: pytest.MonkeyPatch) -> Background[Any]:
    """The Kubernetes adapter's tasks, over an API server that shows both pods."""
    roster = Roster(settings.state, KubernetesTracked)
    roster.load()
    background = KubernetesBackground(settings, roster, KubernetesApi(None), ["n"], "label", selected=None)

    async def observe(folder: IncarnationFolder) -> Observation:
        return story.observe(folder)

    async def complete(_: IncarnationFolder) -> None:
        """Nothing is left."""

    monkeypatch.setattr(background, "answers", lambda _: True)
    monkeypatch.setattr(background.observer, "observe", observe)
    monkeypatch.setattr(background, "_follow", lambda folder, _: story.meet(folder))
    monkeypatch.setattr(background, "complete_output", complete)
    monkeypatch.setattr(background._usage, "measure_pods", lambda _: None)
    monkeypatch.setattr(background._usage, "of", lambda _: USE)
    return background


@pytest.mark.parametrize("error", [ZeroDivisionError("unforeseen"), OSError("no such disk")])
@pytest.mark.parametrize("adapter", [on_docker, on_kubernetes])
async def test_an_error_of_one_incarnation_affects_no_other(
    settings: AdapterSettings,
    story: Story,
    monkeypatch: pytest.MonkeyPatch,
    adapter: Callable[[AdapterSettings, Story, pytest.MonkeyPatch], Background[Any]],
    error: Exception,
) -> None:
    """It hides that incarnation's news; the other one is measured, and its end is reported."""
    for module in (docker_background, kubernetes_background):
        monkeypatch.setattr(module, "_LOOK_AT_ALL_S", 0.1)
    background = adapter(settings, story, monkeypatch)
    background.start()
    async with contextlib.aclosing(cast("Any", background.heartbeats())) as beats:
        async for beat in beats:
            states = {report.job: (report.state, report.cpu_m) for report in beat.replicas}
            if states == {BAD.job: (ReplicaState.RUNNING, USE.cpu_m), GOOD.job: (ReplicaState.RUNNING, USE.cpu_m)}:
                story.error = error
            if story.error is not None:
                story.has_ended = True
            if states.get(GOOD.job, (None,))[0] is ReplicaState.EXITED:
                break
    await background.close()

    assert states[BAD.job][0] is ReplicaState.RUNNING


@pytest.mark.parametrize("adapter", [on_docker, on_kubernetes])
async def test_an_error_of_one_incarnation_measures_the_others(
    settings: AdapterSettings,
    story: Story,
    monkeypatch: pytest.MonkeyPatch,
    adapter: Callable[[AdapterSettings, Story, pytest.MonkeyPatch], Background[Any]],
) -> None:
    """Also if it comes before them in every round, from the first one on."""
    background = adapter(settings, story, monkeypatch)
    await background.look()
    story.error = ZeroDivisionError("unforeseen")
    background.start()
    async with contextlib.aclosing(cast("Any", background.heartbeats())) as beats:
        async for beat in beats:
            if {report.job: report.cpu_m for report in beat.replicas}.get(GOOD.job) == USE.cpu_m:
                break
    await background.close()


async def test_an_end_that_causes_an_error_is_tried_again(
    settings: AdapterSettings, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its container must not stay, while the other one's is removed the first time."""
    background = cast("DockerBackground", on_docker(settings, story, monkeypatch))
    await background.look()
    recorded: list[str] = []

    async def put_on_record(_: str, folder: IncarnationFolder, *__: object) -> None:
        story.meet(folder)
        recorded.append(folder.replica.job)

    monkeypatch.setattr(background, "put_on_record", put_on_record)
    story.error = ZeroDivisionError("unforeseen")
    for tracked in background.roster.all():
        await background.finish(tracked)
    await background.measure()
    assert recorded == [GOOD.job]
    story.error = None
    await background.measure()
    await background.measure()

    assert recorded == [GOOD.job, BAD.job]
    await background.close()


async def test_an_engine_without_an_answer_is_no_error_of_an_incarnation(
    settings: AdapterSettings, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is known about its containers then, and all of them are observed again later."""
    background = on_docker(settings, story, monkeypatch)
    story.error = UncertainError("no answer", code="node-unreachable")
    await background.look()
    assert [each.runs for each in background.roster.all()] == [False, False]
    story.error = None
    await background.look()

    assert [each.runs for each in background.roster.all()] == [True, True]
    await background.close()

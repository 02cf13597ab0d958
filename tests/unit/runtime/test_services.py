"""The composition roots: every installed service builds on memory, and together they carry a workload to its end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.harness.memory_log import MemoryLog
from tests.harness.release_after import FLAG
from tests.harness.system.fake_cluster import FakeCluster
from tests.harness.system.fake_nodes import FakeNodes
from tests.harness.system.rig import HELD, POOL, Rig, RigProcess, context_on
from tests.harness.waiting import until

from steepest.app import configurator
from steepest.app.configurator import Configurator
from steepest.app.installed_services import installed_services, refuse_wrong_services, service_programs, wanted_services
from steepest.app.settings.reading import read_settings
from steepest.app.settings.tree import MetricsSettings, ServiceSettings, Settings
from steepest.clock import SystemClock
from steepest.cluster.port import ReplicaId
from steepest.errors import InputError
from steepest.events import cluster as c
from steepest.events import registry
from steepest.events.parameters import FlowConParameters, PoolParameters, SpeConParameters
from steepest.events.registry import READS, Flag
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.mqtt.settings import MqttSettings
from steepest.runtime.layout import Layout
from steepest.runtime.service import Service
from steepest.view import cluster_view
from steepest.view.state import Phase

SERVICES = (
    "categorizer",
    "gang-scheduler",
    "limit-planner",
    "log-collector",
    "migrator",
    "node-scorer",
    "placer",
    "preemption-planner",
    "rebalancer",
    "resizer",
    "worker-monitor",
)
INSTALLED = tuple(sorted([*SERVICES, "mqtt-bridge"]))
WITH_MQTT = Settings(mqtt=MqttSettings(broker="broker:1883"))
"""All services, with the one that works only where a broker is named."""


def test_all_services_are_found() -> None:
    """What ``steepest up`` runs are the services that are installed, in the order of their names."""
    assert tuple(installed_services()) == INSTALLED


def test_a_service_without_work_does_not_run() -> None:
    """The bridge for devices has work only where a broker is named."""
    assert tuple(wanted_services(Settings())) == SERVICES
    assert tuple(wanted_services(WITH_MQTT)) == INSTALLED


def test_each_service_gets_a_process_with_the_settings_in_force(tmp_path: Path) -> None:
    """As many as asked for, each with the next port; the settings reach it as they are, and it inherits no others."""
    settings = Settings(
        state_dir=str(tmp_path),
        metrics=MetricsSettings(port=9400),
        services=ServiceSettings(only=("categorizer", "placer"), scale=("categorizer=2",)),
    )
    kafka = KafkaSettings(bootstrap="host:9092", prefix="p-", password="s3cret")  # noqa: S106
    programs = list(service_programs(settings, kafka))
    found = [read_settings(environ=program.settings) for program in programs]

    assert [program.name for program in programs] == ["categorizer", "categorizer-2", "placer"]
    assert [program.command[-1] for program in programs] == ["steepest_services.categorizer"] * 2 + [
        "steepest_services.placer"
    ]
    assert [one.metrics.port for one in found] == [9401, 9402, 9403]
    assert {(one.state_dir, one.kafka, one.stop_at_eof) for one in found} == {(str(tmp_path), kafka, True)}


@pytest.mark.parametrize("settings", [ServiceSettings(only=("placr",)), ServiceSettings(scale=("mqtt-bridge=2",))])
def test_a_service_that_cannot_run_so_is_refused_by_name(settings: ServiceSettings) -> None:
    """One that is not installed, and one that is a single session elsewhere."""
    with pytest.raises(InputError, match=r"placr|mqtt-bridge"):
        refuse_wrong_services(Settings(services=settings))


@pytest.mark.parametrize("name", INSTALLED)
async def test_a_service_builds_on_memory(name: str, tmp_path: Path) -> None:
    """Each composition root takes any log, cluster and clock, does nothing yet, and names itself."""
    clock = SystemClock()
    log = MemoryLog(Layout().partitions())
    cluster = FakeCluster(FakeNodes({}, tmp_path, clock), POOL, clock)
    service = installed_services()[name](context_on(tmp_path, log, cluster, clock, settings=WITH_MQTT))

    assert isinstance(service, Service)
    assert service.name == name
    assert service.cluster_deciders or service.stream_deciders or service.effectors


async def test_deciders_and_effectors_have_names_of_their_own(tmp_path: Path) -> None:
    """Names are parts of ids and of snapshots: no two are the same in one process."""
    clock = SystemClock()
    log = MemoryLog(Layout().partitions())
    cluster = FakeCluster(FakeNodes({}, tmp_path, clock), POOL, clock)
    context = context_on(tmp_path, log, cluster, clock, settings=WITH_MQTT)
    services = [build(context) for build in installed_services().values()]
    deciders = [one.name for service in services for one in (*service.cluster_deciders, *service.stream_deciders)]
    effectors = [one.name for service in services for one in service.effectors_of(HELD)]

    assert [name for name, count in Counter(deciders + effectors).items() if count > 1] == []


async def test_a_workload_from_submission_to_its_end(rig: Rig) -> None:
    """All services in one process: jobs are placed, learn, converge, are moved and finish, and every invariant holds."""
    process = rig.start(*SERVICES)
    await rig.configure(PoolParameters(specon=SpeConParameters(interval_ms=3_000)))
    for number, flat in enumerate((8, 40, 50)):
        arguments = ("--steps", "60", "--step-s", "0.5", "--flat-after", str(flat))
        await rig.submit(f"j{number}", *arguments, node="n1", cpu_m=80)
    await until(lambda: len(process.view.jobs) == 3)
    await until(lambda: all(job.phase is Phase.ENDED for job in process.view.jobs), "all to be over", within_s=300)
    await process.stop()
    moved = await rig.of_type(c.MigrationFinished)

    assert [job.outcome for job in process.view.jobs] == [c.Outcome.FINISHED] * 3
    assert [rig.nodes.finished(job.name) for job in process.view.jobs] == [1, 1, 1]
    assert [(event.job, event.target, event.steps_lost) for event in moved] == [("j0", "n2", 0)]
    assert {"CategoryChanged", "ReallocationRequested", "GrowthMeasured", "JobResumed"} <= {
        type(one.event).__name__ for one in await rig.events()
    }
    assert await rig.broken() == []
    assert process.view.snapshot() == (await rig.view()).snapshot()


async def test_each_service_as_a_process_of_its_own(rig: Rig) -> None:
    """The same workload over a process for each service on one log; each of them is killed once and started again."""
    processes = {name: rig.start(name) for name in SERVICES}
    await rig.configure(PoolParameters(specon=SpeConParameters(interval_ms=3_000)))
    for number, flat in enumerate((8, 40, 50)):
        arguments = ("--steps", "60", "--step-s", "0.5", "--flat-after", str(flat))
        await rig.submit(f"j{number}", *arguments, node="n1", cpu_m=80)
    for name in SERVICES:
        await rig.clock.sleep(3)
        processes[name].kill()
        await rig.clock.sleep(0.5)
        processes[name] = rig.start(name)
    await until(processes["placer"].runtime.health.is_ready)
    jobs = processes["placer"].view.jobs
    await until(lambda: all(job.phase is Phase.ENDED for job in jobs), "all to be over", within_s=300)

    assert [job.outcome for job in jobs] == [c.Outcome.FINISHED] * 3
    assert [rig.nodes.finished(job.name) for job in jobs] == [1, 1, 1]
    assert [event.job for event in await rig.of_type(c.MigrationFinished)] == ["j0"]
    assert await rig.broken() == []


def configuring(rig: Rig, parameters: PoolParameters | None, *, upgrades: bool = False) -> RigProcess:
    """Start a process that puts these parameters in force."""
    return rig.start(Service(name="embedded", effectors=lambda _: (Configurator(parameters, upgrades=upgrades),)))


async def test_a_new_pool_has_every_flag_and_an_older_one_keeps_its_own(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers of a pool that is there may not know them: they are switched on where we are its only reader."""
    reads, flags = READS + 1, {FLAG: Flag("A test says so.", since=READS + 1)}
    for module in (registry, configurator, cluster_view):
        monkeypatch.setattr(module, "FLAGS", flags)
    monkeypatch.setattr(cluster_view, "READS", reads)
    new = configuring(rig, None)
    await until(lambda: new.view.state.flags == (FLAG,))
    await rig.append(c.PoolConfigured())
    again = configuring(rig, PoolParameters(tick_ms=700))
    await until(lambda: again.view.parameters.tick_ms == 700)
    alone = configuring(rig, None, upgrades=True)
    await until(lambda: alone.view.state.flags == (FLAG,))

    asked = [(event.reads, event.flags, event.parameters.tick_ms) for event in await rig.of_type(c.PoolConfigured)]
    assert asked == [(reads, (FLAG,), 1_000), (1, (), 1_000), (1, (), 700), (reads, (FLAG,), 700)]


async def test_parameters_are_put_in_force_once(rig: Rig) -> None:
    """Starting again with the same parameters writes nothing."""
    first = configuring(rig, PoolParameters(tick_ms=700))
    await until(lambda: first.view.parameters.tick_ms == 700)
    again = configuring(rig, PoolParameters(tick_ms=700))
    await until(again.runtime.health.is_ready)
    await rig.clock.sleep(5)

    assert len(await rig.of_type(c.PoolConfigured)) == 1


async def test_jobs_are_limited_while_they_train_and_free_when_they_are_alone(rig: Rig) -> None:
    """All services under FlowCon and SpeCon: limits reach the nodes, every invariant holds, and no job is left limited."""
    process = rig.start(*SERVICES)
    parameters = PoolParameters(
        specon=SpeConParameters(interval_ms=3_000), flowcon=FlowConParameters(on=True, interval_ms=3_000)
    )
    await rig.append(c.PoolConfigured(parameters=parameters))
    for number, flat in enumerate((4, 90, 100)):
        arguments = ("--burn", "--steps", "120", "--step-s", "0.5", "--flat-after", str(flat))
        await rig.submit(f"j{number}", *arguments, node="n1", cpu_m=80)
    seen: dict[str, int | None] = {}

    def capped() -> bool:
        training = rig.nodes.newest(ReplicaId("j0"))
        seen["j0"] = training.limit_m if training else None
        return seen["j0"] is not None

    await until(capped, "j0 to be capped", within_s=120)
    await until(
        lambda: len(process.view.jobs) == 3 and all(job.phase is Phase.ENDED for job in process.view.jobs), within_s=900
    )
    applied = await rig.of_type(c.LimitsApplied)

    assert [job.outcome for job in process.view.jobs] == [c.Outcome.FINISHED] * 3
    assert ("j0", seen["j0"]) in {(event.job, event.cpu_m) for event in applied}
    assert await rig.broken() == []
    assert process.view.snapshot() == (await rig.view()).snapshot()


async def test_new_parameters_leave_what_was_switched_on(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting with other parameters lowers no version, and takes back no flag, that the log has raised."""
    monkeypatch.setattr("steepest.view.cluster_view.READS", 9)
    monkeypatch.setattr("steepest.view.cluster_view.FLAGS", {4: "a test's"})
    await rig.append(c.PoolConfigured(reads=9, flags=(4,)))
    process = configuring(rig, PoolParameters(tick_ms=700))
    await until(lambda: process.view.parameters.tick_ms == 700)
    newest = (await rig.of_type(c.PoolConfigured))[-1]

    assert (newest.reads, newest.flags) == (9, (4,))

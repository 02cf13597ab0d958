"""What each verb of a schedule does to a world: the faults, and those actions of users and operators that are none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import msgspec
from tests.faults import operations
from tests.faults.doors import Armed
from tests.faults.processes import AGENT, Process
from tests.faults.reports import Reported
from tests.faults.schedule import Action
from tests.faults.world import World

from steepest.cluster.port import ReplicaId
from steepest.errors import InputError, LogEpochError
from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState
from steepest.log.base import NewRecord, TopicPartition
from steepest.runtime.decode import new_record
from steepest.runtime.layout import DEAD_LETTERS
from steepest.runtime.recovery.loop_snapshots import read_stream_snapshot, restored
from steepest.runtime.recovery.trimming import needed_from

Act = Callable[[World, Action], Awaitable[None]]

READY_AFTER = 10
"""Half seconds that are waited for a process that was started, before it is struck again."""

WAITS_S = 8.0
"""How long a lost node waits for its step before it is declared to be gone without: all other jobs lack its room."""


async def do(world: World, action: Action) -> None:
    """Do what a line says. What is not there any more, nothing happens to.

    At a step of any plan it is done as often as such a step is reached, until something has happened; with ``starts``, as
    often as that job's plans reach it.
    """
    act = VERBS[action.verb]
    if not action.when.step or action.verb in WAIT_THEMSELVES:
        await act(world, action)
        return
    while not world.has_struck():
        job = await world.reached(action.when.point)
        if action.options.get("starts", job) != job:
            continue
        if action.when.at_s:  # otherwise before any process has read it
            await asyncio.sleep(action.when.at_s)
        if world.healed:
            return
        named = action.about or action.verb not in OF_A_JOB
        await act(world, action if named else msgspec.structs.replace(action, about=job))


# --- processes -----------------------------------------------------------------------------------------------------


async def kill(world: World, action: Action) -> None:
    """SIGKILL, and started again after ``down`` seconds; without its snapshots where ``snapshots=lost``."""
    for process in _processes(world, action):
        world.note_strike("forget" if "snapshots" in action.options else action.verb)
        process.kill()
        if "snapshots" in action.options and not world.needs_snapshots:
            process.forget()
        process.start_after(action.number("down", 1))


async def stop(world: World, action: Action) -> None:
    """SIGTERM, and started again after ``down`` seconds."""
    for process in _processes(world, action):
        world.note_strike(action.verb)
        await process.stop()
        process.start_after(action.number("down", 1))


async def upgrade(world: World, action: Action) -> None:
    """Stopped, and started as a release of a later ``logic``; one that is already is only started again."""
    for process in _processes(world, action):
        world.note_strike("stop" if process.raised else action.verb)
        await process.stop()
        process.raised = 1
        process.start_after(action.number("down", 1))


async def roll_back(world: World, action: Action) -> None:
    """Upgraded, unless it is already; and at the step stopped, and started as the first release."""
    for process in _processes(world, action):
        if not process.raised:
            await upgrade(world, Action(action.when, "upgrade", process.name))
            await _until_ready(process)
        if action.when.step:
            await world.reached(action.when.point)
            await asyncio.sleep(action.when.at_s)
        if world.healed:
            return
        world.note_strike(action.verb)
        await process.stop()
        process.raised = 0
        process.start_after(action.number("down", 1))


async def _until_ready(process: Process) -> None:
    """At most so long as nothing else keeps a process from it."""
    for _ in range(READY_AFTER):
        await asyncio.sleep(0.5)
        if not process.is_down and process.runtime.health.is_ready():
            return


async def pause(world: World, action: Action) -> None:
    """SIGSTOP, and SIGCONT after ``for`` seconds."""
    for process in _processes(world, action):
        if process.is_down:
            continue
        world.note_strike(action.verb)
        doors = process.doors
        doors.life.pause()
        await asyncio.sleep(action.number("for", 5))
        if process.doors is doors and not process.is_down:
            doors.life.wake()


async def clock(world: World, action: Action) -> None:
    """A wall clock is set, forward or back, ``by`` milliseconds; with ``drift``, it gains such a share of each second."""
    for process in _processes(world, action):
        drift = action.number("drift", 0)
        world.note_strike("drift" if drift else action.verb)
        process.clock.set(int(action.number("by", 0 if drift else 60_000)), drift)


def _processes(world: World, action: Action) -> list[Process]:
    """The process of that name, or those that run that service; all where there is no name."""
    if not action.about:
        return list(world.processes.values())
    named = world.processes.get(action.about)
    if named is not None:
        return [named]
    found = [one for one in world.processes.values() if action.about in one.services]
    return found[:1]


async def power_loss(world: World, action: Action) -> None:
    """All machines lose their power, and with it up to ``lost`` of each partition's newest records, or ``exactly`` so many.

    All start again.

    With ``again`` it is lost once more so many seconds later, and no record with it. With ``later``, all that does not
    watch the nodes starts so many seconds after what does.
    """
    exactly = int(action.number("exactly", 0))
    await _lose_power(world, action, exactly, exactly or int(action.number("lost", 5)))
    if "again" in action.options:
        await asyncio.sleep(action.number("again", 0))
        if not world.healed:
            await _lose_power(world, action, 0, 0)


async def _lose_power(world: World, action: Action, least: int, most: int) -> None:
    world.note_strike(action.verb)
    await world.lose_power(least, most)
    for process in world.processes.values():
        waits_s = 0.0 if AGENT in process.services else action.number("later", 0)
        process.start_after(action.number("down", 1) + waits_s)


async def trim(world: World, action: Action) -> None:
    """An operator removes of the pools' logs what no service needs any more, at a step."""
    await _remove(world, action, _of_pools)


async def age(world: World, action: Action) -> None:
    """Time removes of the other topics what stands before all snapshots, and every letter; then a process is killed."""
    if await _remove(world, action, _of_streams, DEAD_LETTERS):
        for process in _processes(world, action):
            process.kill()
            process.start_after(action.number("down", 1))


Needed = Callable[[World, Process], Awaitable[Mapping[TopicPartition, int]]]
"""The first offset of each partition that a process would ask for if it started now."""


async def _remove(world: World, action: Action, needed: Needed, *also: TopicPartition) -> bool:
    """Remove what no process needs, and all of ``also``; whether there was anything.

    Nothing, as long as one would start from the first record; who has no snapshot is stopped and started before.
    """
    for process in world.processes.values():
        if not all((await needed(world, process)).values()):
            await process.stop()
            process.start_after(0.5)
    log = world.broker.log
    while not world.has_struck():
        if action.when.step:
            await world.reached(action.when.point)
            await asyncio.sleep(action.when.at_s)
        if world.healed:
            break
        world.trimming += 1
        before: dict[TopicPartition, int] = {}
        for process in world.processes.values():
            for at, offset in (await needed(world, process)).items():
                before[at] = min(offset, before.get(at, offset))
        passed = {at: offset for at, offset in before.items() if offset > await log.begin(at)}
        if passed:
            world.note_strike(action.verb)
            world.is_trimmed = True
            for at, offset in (*passed.items(), *[(at, await log.end(at)) for at in also]):
                await world.broker.trim(at, offset)
        world.trimming -= 1
        if not action.when.step:
            break
    return world.has_struck()


async def _of_pools(world: World, process: Process) -> Mapping[TopicPartition, int]:
    return {at: await _needed(world, process, at) for at in map(world.layout.of_pool, world.layout.pools)}


async def _needed(world: World, process: Process, at: TopicPartition) -> int:
    try:
        return await needed_from(world.broker.log, at, world.layout, process.built, lambda _: process.snapshots)
    except InputError:
        return 0


async def _of_streams(world: World, process: Process) -> Mapping[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for kind in [kind for service in process.built for kind in service.stream_deciders]:
        for at in world.layout.of_topic(kind.topic):
            snapshot = None
            with suppress(LogEpochError):  # of a topic that was created again since: read from its beginning
                snapshot = await read_stream_snapshot(process.snapshots, world.broker.log, kind.name, at)
            is_usable = snapshot is not None and restored([kind], {kind.name: snapshot.decider}) is not None
            passed = snapshot.position if snapshot is not None and is_usable else 0
            found[at] = min(passed, found.get(at, passed))
    return found


async def recreate(world: World, action: Action) -> None:
    """A topic is deleted and created again; nothing, where the services' state folders hold what no log has."""
    if world.needs_snapshots:
        return
    world.note_strike(action.verb)
    await world.recreate(action.about)
    for process in world.processes.values():
        process.start_after(action.number("down", 1))


async def garbage(world: World, action: Action) -> None:
    """A program writes into a topic what no reader can read; with ``down``, while all processes are, so many seconds."""
    world.note_strike("garbage" if "down" not in action.options else "while-down")
    if "down" in action.options:
        for process in world.processes.values():
            process.kill()
            process.start_after(action.number("down", 1))
    await world.broker.answers()
    for at in world.layout.of_topic(action.about):
        value = action.options.get("value", "no event").encode()
        await world.broker.append([NewRecord(to=at, key="", value=value, at_ms=world.clock.now_ms())])


# --- the log and the cluster ----------------------------------------------------------------------------------------


def _armed(door: str) -> Act:
    async def arm(world: World, action: Action) -> None:
        only_acts = "acts" in action.options
        times, for_s, starts = int(action.number("n", 1)), action.number("for", 5), action.options.get("starts", "")
        faults = [Armed(action.verb, times, for_s, only_acts, action.when.step, starts)]
        if refused := int(action.number("refused", 0)):
            faults.append(Armed("call-refused", refused, 0.0, only_acts=True, step=action.when.step, starts=starts))
        # Which of several replicas will make the calls of a step is not known; together they meet so many.
        replicas = [one for one in world.processes.values() if action.about in (one.name, *one.services)]
        for process in replicas if action.when.step and action.about else _processes(world, action):
            for fault in faults:
                process.arm(door, fault if fault.step else msgspec.structs.replace(fault))

    return arm


async def broker_stuck(world: World, action: Action) -> None:
    """The broker answers nothing ``for`` seconds."""
    world.note_strike(action.verb)
    world.broker.stick()
    await asyncio.sleep(action.number("for", 5))
    world.broker.heal()


async def broker_slow(world: World, action: Action) -> None:
    """Appends take ``times`` as long ``for`` seconds."""
    world.note_strike(action.verb)
    world.broker.slower = action.number("times", 50)
    await asyncio.sleep(action.number("for", 10))
    world.broker.heal()


# --- nodes ---------------------------------------------------------------------------------------------------------


async def node_down(world: World, action: Action) -> None:
    """A node fails with all that runs there, and is back after ``for`` seconds."""
    for nodes in world.nodes.values():
        if action.about in nodes.nodes:
            world.note_strike(action.verb)
            nodes.lose(action.about)
            await asyncio.sleep(action.number("for", 15))
            nodes.repair(action.about)


async def node_silent(world: World, action: Action) -> None:
    """A node's heartbeats are lost ``for`` seconds; what runs there runs on."""
    world.note_strike(action.verb)
    world.silent[action.about] = None
    await asyncio.sleep(action.number("for", 15))
    world.silent.pop(action.about, None)


async def crash(world: World, action: Action) -> None:
    """A replica of a job, or of some gang, dies: killed, with status 1, or without any status that can be read."""
    job = action.about
    if not job:
        found = await operations.first_running(world, action, lambda _, one: one.name if one.spec.is_gang else None)
        job = found[1] if found else ""
    for nodes in world.nodes.values():
        training = nodes.newest(ReplicaId(job, int(action.number("replica", 0))))
        if training is None or not training.running:
            continue
        world.note_strike(action.verb)
        match action.options.get("how", "killed"):
            case "killed":
                training.kill()
            case "lost":
                training.lose()
            case _:
                training.exit(1)


async def node_gone(world: World, action: Action) -> None:
    """A node fails; once the pool has lost it, and a named step is reached, it is declared to be gone; later it is back."""
    for pool, nodes in world.nodes.items():
        if action.about not in nodes.nodes:
            continue
        nodes.lose(action.about)
        for _ in range(int(action.number("for", 30))):
            await asyncio.sleep(1.0)
            known = world.views()[pool].nodes.get(action.about)
            if known is None or not known.lost:
                continue
            if action.when.step:
                with suppress(TimeoutError):
                    await asyncio.wait_for(world.reached(action.when.point), WAITS_S)
            if nodes.nodes[action.about].lost:
                world.note_strike(action.verb)
                await world.append(pool, c.NodeGone(node=action.about))
                break
        nodes.repair(action.about)


async def job_lies(world: World, action: Action) -> None:
    """What a job reports is false from now on: its steps are ``further``, and its losses ``larger`` times what they are."""
    world.note_strike(action.verb)
    for nodes in world.nodes.values():
        witness = nodes.witness
        assert isinstance(witness, Reported)
        witness.lies[action.about] = (int(action.number("further", 0)), action.number("larger", 1.0))


async def device_lies(world: World, action: Action) -> None:
    """A device, which takes no jobs, reports the end of incarnation ``of`` of a job as if it had run there.

    Where none is named, of the newest one; and where no job is named, of some job that runs.
    """
    if action.about:
        found = operations.known(world, action.about)
    else:
        found = await operations.first_running(world, action, lambda _, one: one)
    about = found[1].name if found else action.about
    if not about:
        return
    incarnation = int(action.number("of", found[1].incarnation or 1 if found else 1))
    world.note_strike(action.verb)
    for pool in world.layout.pools:
        beat = NodeHeartbeat(
            node="device",
            pool=pool,
            at_ms=world.clock.now_ms(),
            capacity=Resources(cpu_m=int(action.number("cpu", 4000))),
            replicas=(
                ReplicaReport(
                    job=about,
                    incarnation=incarnation,
                    state=ReplicaState.EXITED,
                    exit_status=0,
                    checkpoint_mode=CheckpointMode.NONE,
                ),
            ),
            takes_jobs=False,
        )
        await world.broker.answers()
        at = TopicPartition("heartbeats", world.layout.of_pool(pool).partition)
        await world.broker.append([new_record(at, beat.node, beat, beat.at_ms)])


AT_DOORS = {
    "append-fails": "append", "append-unclear": "append", "append-late": "append", "append-zombie": "append",
    "append-dies": "append", "read-fails": "read",
    "call-refused": "call", "call-unclear": "call", "call-lost": "call", "call-late": "call", "call-slow": "call",
    "call-twice": "call", "call-zombie": "call", "call-bug": "call", "call-dies": "call",
    "disk-full": "save",
}  # fmt: skip
"""Faults of the next calls to the door that each of them meets."""

WAIT_THEMSELVES = frozenset((*AT_DOORS, "node-gone", "roll-back", "trim", "age"))
"""What begins before the step at which it strikes."""

OF_A_JOB = frozenset(("crash", "job-lies", "device-lies"))
"""What concerns the job of the plan whose step is reached, where no job is named."""

VERBS: Mapping[str, Act] = {
    "submit": operations.submit,
    "cancel": operations.cancel,
    "move": operations.move,
    "suspend": operations.transition,
    "scale": operations.transition,
    "gang-move": operations.transition,
    "shed": operations.shed,
    "configure": operations.configure,
    "kill": kill,
    "stop": stop,
    "upgrade": upgrade,
    "roll-back": roll_back,
    "power-loss": power_loss,
    "trim": trim,
    "age": age,
    "garbage": garbage,
    "recreate": recreate,
    "pause": pause,
    "clock": clock,
    "broker-stuck": broker_stuck,
    "broker-slow": broker_slow,
    "node-down": node_down,
    "node-silent": node_silent,
    "node-gone": node_gone,
    "crash": crash,
    "job-lies": job_lies,
    "device-lies": device_lies,
    **{verb: _armed(door) for verb, door in AT_DOORS.items()},
}

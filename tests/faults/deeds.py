"""What each verb of a schedule does to a world."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from tests.faults.doors import Armed
from tests.faults.processes import Process
from tests.faults.reports import Reported
from tests.faults.schedule import Deed
from tests.faults.world import World, parameters

from steepest.cluster.port import ReplicaId
from steepest.errors import InputError
from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.heartbeat import NodeHeartbeat, ReplicaReport, ReplicaState
from steepest.events.registry import FLAGS, reads_for
from steepest.log.base import NewRecord, TopicPartition
from steepest.runtime.decode import new_record
from steepest.runtime.recovery.trimming import needed_from
from steepest.testing.system.fake_training import PROGRAM
from steepest.view.state import Job

Act = Callable[[World, Deed], Awaitable[None]]


async def do(world: World, deed: Deed) -> None:
    """Do what a line says. What is not there any more, nothing happens to."""
    await VERBS[deed.verb](world, deed)


# --- users and operators --------------------------------------------------------------------------------------------


async def submit(world: World, deed: Deed) -> None:
    """A job: ``steps``, ``step-s``, ``cpu``, ``mode``, ``retries``, ``replicas``, ``priority``, ``learns`` until a step.

    Of a gang, ``fewest`` lets it be scaled, and ``loose`` lets its workers leave without a restart.

    ``breaks`` its word: ``silent`` answers no request, ``spoil`` saves what cannot be read, ``ignore-term`` does not stop.
    """
    given = deed.options
    arguments = [f"--steps={given.get('steps', '10')}", f"--step-s={given.get('step-s', '1')}"]
    arguments += [f"--mode={given.get('mode', 'on-request')}", f"--save-s={given.get('save-s', '0')}"]
    arguments += [f"--flat-after={given['learns']}"] if "learns" in given else []
    arguments += [f"--exit={given['exit']}"] if "exit" in given else []
    arguments += [f"--{given['breaks']}"] if "breaks" in given else []
    cpu = Resources(cpu_m=int(given.get("cpu", "200")))
    replicas = int(given.get("replicas", "1"))
    roles: tuple[c.Role, ...] = ()
    success = c.SuccessRule.ALL
    if replicas > 1:
        fewest = int(given["fewest"]) if "fewest" in given else None
        loose = "loose" in given
        workers = c.Role(name="worker", replicas=replicas, min=fewest, max=replicas + 2, requests=cpu, may_leave=loose)
        success = c.SuccessRule.CHIEF if loose else success
        roles = (workers,)
        roles = roles if fewest else (c.Role(name="worker", replicas=replicas, requests=cpu),)
    spec = c.JobSpec(
        command=(PROGRAM, *arguments),
        requests=cpu,
        roles=roles,
        success=success,
        retries=int(given.get("retries", "20")),
        priority=int(given.get("priority", "0")),
    )
    pool = given.get("pool", world.layout.pools[0])
    world.submitted[pool][deed.about] = None
    await world.append(pool, c.JobSubmitted(job=deed.about, request=f"submit-{deed.about}", spec=spec))


async def cancel(world: World, deed: Deed) -> None:
    """A user wants a job's end."""
    if found := _job(world, deed.about):
        pool, _ = found
        world.note_strike(deed.verb)
        await world.append(pool, c.JobCancelRequested(job=deed.about, request=f"cancel-{deed.about}"))


async def move(world: World, deed: Deed) -> None:
    """An operator plans a job's move to the node ``to``."""
    found = _job(world, deed.about)
    if found is None or found[1].node is None or not found[1].alive:
        return
    pool, job = found
    world.note_strike(deed.verb)
    assert job.node is not None
    await world.append(
        pool,
        c.MigrationPlanned(
            plan=_plan(world, deed),
            job=job.name,
            incarnation=job.incarnation,
            source=job.node,
            target=deed.options["to"],
            kind=c.MoveKind.REALLOCATION,
            because=c.Because(rule="the schedule says so"),
        ),
    )


async def transition(world: World, deed: Deed) -> None:
    """An operator plans that a job is suspended, scaled or moved as a gang, to the nodes ``to``."""
    found = _job(world, deed.about)
    if found is None or not found[1].alive:
        return
    pool, job = found
    world.note_strike(deed.verb)
    kind = c.Transition(deed.verb.removeprefix("gang-"))
    nodes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    if kind is not c.Transition.SUSPEND:
        to = deed.options["to"].split(",")
        sizes = job.running_sizes
        if kind is c.Transition.SCALE and sizes:
            sizes = (*sizes[:-1], int(deed.options["size"]))
        count = sum(sizes) or 1
        nodes = tuple(to[number % len(to)] for number in range(count))
    await world.append(
        pool,
        c.TransitionPlanned(
            plan=_plan(world, deed),
            job=job.name,
            incarnation=job.incarnation,
            kind=kind,
            sources=job.running_on,
            nodes=nodes,
            sizes=sizes,
            because=c.Because(rule="the schedule says so"),
        ),
    )


async def shed(world: World, deed: Deed) -> None:
    """An operator plans that the last ``count`` workers of a gang leave, and that the others train on."""
    found = _job(world, deed.about)
    if found is None or not found[1].spec.is_gang:
        return
    pool, job = found
    running = [index for index, replica in enumerate(job.replicas) if replica.alive]
    leaving = tuple(running[-int(deed.options["count"]) :])
    if len(leaving) == len(running):
        return
    world.note_strike(deed.verb)
    counts = list(job.running_sizes)
    for index in leaving:
        counts[job.replicas[index].role] -= 1
    await world.append(
        pool,
        c.TransitionPlanned(
            plan=_plan(world, deed),
            job=job.name,
            incarnation=job.incarnation,
            kind=c.Transition.SHED,
            sources=job.running_on,
            nodes=tuple(job.replicas[index].node for index in running if index not in leaving),
            sizes=tuple(counts),
            leaving=leaving,
            because=c.Because(rule="the schedule says so"),
        ),
    )


async def configure(world: World, deed: Deed) -> None:
    """An operator changes parameters; with ``flags``, to what this release decides by."""
    world.note_strike(deed.verb if "flags" not in deed.options else "reads")
    for pool, view in world.views().items():
        wanted = parameters({**world.schedule.world, **deed.options})
        flags = tuple(FLAGS) if "flags" in deed.options else view.state.flags
        reads = max(view.state.reads, reads_for(wanted, flags))
        await world.append(pool, c.PoolConfigured(reads=reads, flags=flags, parameters=wanted))


# --- processes -----------------------------------------------------------------------------------------------------


async def kill(world: World, deed: Deed) -> None:
    """SIGKILL, and started again after ``down`` seconds; without its snapshots where ``snapshots=lost``."""
    for process in _processes(world, deed):
        world.note_strike("forget" if "snapshots" in deed.options else deed.verb)
        process.kill()
        if "snapshots" in deed.options and not world.is_trimmed:
            process.forget()
        process.start_after(deed.number("down", 1))


async def stop(world: World, deed: Deed) -> None:
    """SIGTERM, and started again after ``down`` seconds."""
    for process in _processes(world, deed):
        world.note_strike(deed.verb)
        await process.stop()
        process.start_after(deed.number("down", 1))


async def upgrade(world: World, deed: Deed) -> None:
    """Stopped, and started as a release of another ``logic``: ``by`` 1 is a later one, and 0 the first."""
    for process in _processes(world, deed):
        world.note_strike(deed.verb if deed.number("by", 1) else "roll-back")
        await process.stop()
        process.raised = int(deed.number("by", 1))
        process.start_after(deed.number("down", 1))


async def pause(world: World, deed: Deed) -> None:
    """SIGSTOP, and SIGCONT after ``for`` seconds."""
    for process in _processes(world, deed):
        if process.is_down:
            continue
        world.note_strike(deed.verb)
        doors = process.doors
        doors.life.pause()
        await asyncio.sleep(deed.number("for", 5))
        if process.doors is doors and not process.is_down:
            doors.life.wake()


async def clock(world: World, deed: Deed) -> None:
    """A wall clock is set, forward or back, ``by`` milliseconds."""
    for process in _processes(world, deed):
        world.note_strike(deed.verb)
        process.set_clock(int(deed.number("by", 60_000)))


def _processes(world: World, deed: Deed) -> list[Process]:
    """The process of that name, or those that run that service; all where there is no name."""
    if not deed.about:
        return list(world.processes.values())
    named = world.processes.get(deed.about)
    if named is not None:
        return [named]
    found = [one for one in world.processes.values() if deed.about in one.services]
    return found[:1]


async def power_loss(world: World, deed: Deed) -> None:
    """All machines lose their power, and with it up to ``lost`` of each partition's newest records; all start again."""
    world.note_strike(deed.verb)
    await world.lose_power(int(deed.number("lost", 5)))
    for process in world.processes.values():
        process.start_after(deed.number("down", 1))


async def trim(world: World, deed: Deed) -> None:
    """An operator removes what no service needs any more; nothing, where one has no snapshot to start from."""
    log = world.broker.log
    for pool in world.layout.pools:
        at = world.layout.of_pool(pool)
        needed = [await _needed(world, process, at) for process in world.processes.values()]
        if (before := min(needed)) > await log.begin(at):
            world.note_strike(deed.verb)
            world.is_trimmed = True
            await world.broker.trim(at, before)


async def _needed(world: World, process: Process, at: TopicPartition) -> int:
    try:
        return await needed_from(world.broker.log, at, world.layout, process.built, lambda _: process.snapshots)
    except InputError:
        return 0


async def recreate(world: World, deed: Deed) -> None:
    """A topic is deleted and created again; nothing, where the services' state folders hold what no log has."""
    if world.is_trimmed:
        return
    world.note_strike(deed.verb)
    await world.recreate(deed.about)
    for process in world.processes.values():
        process.start_after(deed.number("down", 1))


async def garbage(world: World, deed: Deed) -> None:
    """A program writes into a topic what no reader can read; with ``down``, while all processes are, so many seconds."""
    world.note_strike("garbage" if "down" not in deed.options else "while-down")
    if "down" in deed.options:
        for process in world.processes.values():
            process.kill()
            process.start_after(deed.number("down", 1))
    await world.broker.answers()
    for at in world.layout.of_topic(deed.about):
        value = deed.options.get("value", "no event").encode()
        await world.broker.append([NewRecord(to=at, key="", value=value, at_ms=world.clock.now_ms())])


# --- the log and the cluster ----------------------------------------------------------------------------------------


def _armed(door: str) -> Act:
    async def arm(world: World, deed: Deed) -> None:
        for process in _processes(world, deed):
            process.doors.arm(door, Armed(deed.verb, int(deed.number("n", 1)), deed.number("for", 5)))

    return arm


async def broker_stuck(world: World, deed: Deed) -> None:
    """The broker answers nothing ``for`` seconds."""
    world.note_strike(deed.verb)
    world.broker.stick()
    await asyncio.sleep(deed.number("for", 5))
    world.broker.heal()


async def broker_slow(world: World, deed: Deed) -> None:
    """Appends take ``times`` as long ``for`` seconds."""
    world.note_strike(deed.verb)
    world.broker.slower = deed.number("times", 50)
    await asyncio.sleep(deed.number("for", 10))
    world.broker.heal()


# --- nodes ---------------------------------------------------------------------------------------------------------


async def node_down(world: World, deed: Deed) -> None:
    """A node fails with all that runs there, and is back after ``for`` seconds."""
    for nodes in world.nodes.values():
        if deed.about in nodes.nodes:
            world.note_strike(deed.verb)
            nodes.lose(deed.about)
            await asyncio.sleep(deed.number("for", 15))
            nodes.repair(deed.about)


async def node_silent(world: World, deed: Deed) -> None:
    """A node's heartbeats are lost ``for`` seconds; what runs there runs on."""
    world.note_strike(deed.verb)
    world.silent[deed.about] = None
    await asyncio.sleep(deed.number("for", 15))
    world.silent.pop(deed.about, None)


async def crash(world: World, deed: Deed) -> None:
    """A replica of a job dies: killed, with status 1, or without any status that can be read."""
    for nodes in world.nodes.values():
        training = nodes.newest(ReplicaId(deed.about, int(deed.number("replica", 0))))
        if training is None or not training.running:
            continue
        world.note_strike(deed.verb)
        match deed.options.get("how", "killed"):
            case "killed":
                training.kill()
            case "lost":
                training.lose()
            case _:
                training.exit(1)


async def node_gone(world: World, deed: Deed) -> None:
    """A node fails, and once the pool has lost it, it is declared to be gone; it is back after ``for`` seconds."""
    for pool, nodes in world.nodes.items():
        if deed.about not in nodes.nodes:
            continue
        nodes.lose(deed.about)
        for _ in range(int(deed.number("for", 30))):
            await asyncio.sleep(1.0)
            known = world.views()[pool].nodes.get(deed.about)
            if known is not None and known.lost and nodes.nodes[deed.about].lost:
                world.note_strike(deed.verb)
                await world.append(pool, c.NodeGone(node=deed.about))
                break
        nodes.repair(deed.about)


async def job_lies(world: World, deed: Deed) -> None:
    """What a job reports is false from now on: its steps are ``further``, and its losses ``larger`` times what they are."""
    world.note_strike(deed.verb)
    for nodes in world.nodes.values():
        witness = nodes.witness
        assert isinstance(witness, Reported)
        witness.lies[deed.about] = (int(deed.number("further", 0)), deed.number("larger", 1.0))


async def device_lies(world: World, deed: Deed) -> None:
    """A device, which takes no jobs, reports the end of incarnation ``of`` of a job as if it had run there."""
    world.note_strike(deed.verb)
    for pool in world.layout.pools:
        beat = NodeHeartbeat(
            node="device",
            pool=pool,
            at_ms=world.clock.now_ms(),
            capacity=Resources(cpu_m=int(deed.number("cpu", 4000))),
            replicas=(
                ReplicaReport(
                    job=deed.about,
                    incarnation=int(deed.number("of", 1)),
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


def _job(world: World, name: str) -> tuple[str, Job] | None:
    for pool, view in world.views().items():
        if (job := view.jobs.get(name)) is not None:
            return pool, job
    return None


def _plan(world: World, deed: Deed) -> str:
    return f"{deed.verb}-{deed.about}-{round(world.now_s * 1000)}"


VERBS: Mapping[str, Act] = {
    "submit": submit,
    "cancel": cancel,
    "move": move,
    "suspend": transition,
    "scale": transition,
    "gang-move": transition,
    "shed": shed,
    "configure": configure,
    "kill": kill,
    "stop": stop,
    "upgrade": upgrade,
    "power-loss": power_loss,
    "trim": trim,
    "garbage": garbage,
    "recreate": recreate,
    "pause": pause,
    "clock": clock,
    "append-fails": _armed("append"),
    "append-unclear": _armed("append"),
    "append-late": _armed("append"),
    "append-zombie": _armed("append"),
    "read-fails": _armed("read"),
    "call-refused": _armed("call"),
    "call-unclear": _armed("call"),
    "call-lost": _armed("call"),
    "call-late": _armed("call"),
    "call-slow": _armed("call"),
    "call-twice": _armed("call"),
    "call-zombie": _armed("call"),
    "call-bug": _armed("call"),
    "broker-stuck": broker_stuck,
    "broker-slow": broker_slow,
    "node-down": node_down,
    "node-silent": node_silent,
    "node-gone": node_gone,
    "crash": crash,
    "job-lies": job_lies,
    "device-lies": device_lies,
    "disk-full": _armed("save"),
}

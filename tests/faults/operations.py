"""What users and operators do to a world, that is no fault: jobs, their ends, plans, and parameters.

A plan about a job that is named is made as it is, and may be void. Where none is named, it is a valid one about some job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from tests.faults.schedule import Action
from tests.faults.world import World, parameters
from tests.harness.system.fake_training import PROGRAM

from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job
from steepest.view.validity import Planned, void_migration, void_transition

T = TypeVar("T")

LOOK_S = 1.0
"""How often an operator looks for a job that a plan fits."""


async def submit(world: World, action: Action) -> None:
    """A job: ``steps``, ``step-s``, ``cpu``, ``mode``, ``retries``, ``replicas``, ``priority``, ``queue``.

    ``learns``: until a step. ``trial``: it is compared with others.

    Of a gang, ``fewest`` lets it be scaled, and ``loose`` lets its workers leave without a restart.

    ``breaks`` its word: ``silent`` answers no request, ``spoil`` saves what cannot be read, ``ignore-term`` does not stop.
    """
    given = action.options
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
        queue=given.get("queue", "default"),
        array="sweep" if "trial" in given else "",
        rungs=c.Rungs(first=2, factor=2) if "trial" in given else None,
    )
    pool = given.get("pool", world.layout.pools[0])
    world.submitted[pool][action.about] = None
    await world.append(pool, c.JobSubmitted(job=action.about, request=f"submit-{action.about}", spec=spec))


async def cancel(world: World, action: Action) -> None:
    """A user wants a job's end."""
    found = known(world, action.about) if action.about else await first_running(world, action, lambda _, job: job)
    if found is not None:
        pool, job = found
        world.note_strike(action.verb)
        await world.append(pool, c.JobCancelRequested(job=job.name, request=f"cancel-{job.name}"))


async def move(world: World, action: Action) -> None:
    """An operator plans a job's move to the node ``to``."""
    if not action.about:
        await _plan(world, action, await first_running(world, action, partial(_valid_move, world, action)))
        return
    found = known(world, action.about)
    if found is not None and found[1].node is not None and found[1].alive:
        await _plan(world, action, (found[0], _migration(world, action, found[1], action.options["to"])))


async def transition(world: World, action: Action) -> None:
    """An operator plans that a job is suspended, scaled or moved as a gang, to the nodes ``to``."""
    if not action.about:
        await _plan(world, action, await first_running(world, action, partial(_valid_transition, world, action)))
        return
    found = known(world, action.about)
    if found is None or not found[1].alive:
        return
    pool, job = found
    kind = c.Transition(action.verb.removeprefix("gang-"))
    nodes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    if kind is not c.Transition.SUSPEND:
        sizes = job.running_sizes
        if kind is c.Transition.SCALE and sizes:
            sizes = (*sizes[:-1], int(action.options["size"]))
        nodes = _dealt(action.options["to"].split(","), sum(sizes) or 1)
    await _plan(world, action, (pool, _transition(world, action, job, kind, nodes=nodes, sizes=sizes)))


async def shed(world: World, action: Action) -> None:
    """An operator plans that the last ``count`` workers of a gang leave, and that the others train on."""
    if not action.about:
        await _plan(world, action, await first_running(world, action, partial(_valid_transition, world, action)))
        return
    found = known(world, action.about)
    if found is None or not found[1].spec.is_gang:
        return
    event = _shedding(world, action, found[1], int(action.options["count"]))
    await _plan(world, action, (found[0], event) if event is not None else None)


async def configure(world: World, action: Action) -> None:
    """An operator changes parameters."""
    world.note_strike(action.verb)
    for pool in world.layout.pools:
        before = await world.configured(pool)
        wanted = parameters({**world.schedule.world, **action.options})
        await world.append(pool, msgspec.structs.replace(before, parameters=wanted))


def known(world: World, name: str) -> tuple[str, Job] | None:
    """A job that some process knows, with its pool."""
    for pool, view in world.views().items():
        if (job := view.jobs.get(name)) is not None:
            return pool, job
    return None


# --- plans ---------------------------------------------------------------------------------------------------------


async def _plan(world: World, action: Action, found: tuple[str, Planned] | None) -> None:
    """An operator plans, ``late`` after what it was made of; nothing, where there is no plan."""
    if found is not None:
        await asyncio.sleep(action.number("late", 0))
        world.note_strike(action.verb)
        await world.append(*found)


async def first_running(
    world: World, action: Action, wanted: Callable[[ClusterView, Job], T | None]
) -> tuple[str, T] | None:
    """What is wanted of the first running job that has it, from the ``pick``-th on, once there is one; with its pool."""
    looked_at: dict[str, int] = {}
    while not world.healed:
        for pool, view in world.views().items():
            if looked_at.get(pool) == view.position:
                continue
            looked_at[pool] = view.position
            jobs = [job for job in view.jobs if job.alive and not job.plan and not job.cancel]
            begin = int(action.number("pick", 0)) % (len(jobs) or 1)
            for job in (*jobs[begin:], *jobs[:begin]):
                if "saves" in action.options and job.mode is not CheckpointMode.ON_REQUEST:
                    continue
                if (found := wanted(view, job)) is not None:
                    return pool, found
        await asyncio.sleep(LOOK_S)
    return None


def _valid_move(world: World, action: Action, view: ClusterView, job: Job) -> c.MigrationPlanned | None:
    if job.node is None:
        return None
    events = [_migration(world, action, job, node.name) for node in view.nodes]
    return next((one for one in events if void_migration(one, job, view.nodes, view.counted_ms) is None), None)


def _valid_transition(world: World, action: Action, view: ClusterView, job: Job) -> c.TransitionPlanned | None:
    kind = c.Transition(action.verb.removeprefix("gang-"))
    events: Iterable[c.TransitionPlanned | None]
    if kind is c.Transition.SUSPEND:
        events = (_transition(world, action, job, kind),)
    elif not job.spec.is_gang:
        return None
    elif kind is c.Transition.SHED:
        events = (_shedding(world, action, job, count) for count in range(1, job.spec.world))
    else:
        names, now = [node.name for node in view.nodes], job.running_sizes
        last = range(now[-1] + 2, 0, -1) if kind is c.Transition.SCALE and now else now[-1:]
        events = (
            _transition(world, action, job, kind, nodes=_dealt(to, sum((*now[:-1], size))), sizes=(*now[:-1], size))
            for size in last
            for to in (names[begin:] + names[:begin] for begin in range(len(names)))
        )
    return next((one for one in events if one is not None and void_transition(one, job, view) is None), None)


def _dealt(nodes: Sequence[str], count: int) -> tuple[str, ...]:
    return tuple(nodes[number % len(nodes)] for number in range(count))


def _named(world: World, action: Action, job: Job) -> str:
    return f"{action.verb}-{job.name}-{next(world.wishes)}"


def _migration(world: World, action: Action, job: Job, to: str) -> c.MigrationPlanned:
    assert job.node is not None
    return c.MigrationPlanned(
        plan=_named(world, action, job),
        job=job.name,
        incarnation=job.incarnation,
        source=job.node,
        target=to,
        kind=c.MoveKind.REALLOCATION,
        because=c.Because(rule="the schedule says so"),
    )


def _shedding(world: World, action: Action, job: Job, count: int) -> c.TransitionPlanned | None:
    running = [index for index, replica in enumerate(job.replicas) if replica.alive]
    leaving = tuple(running[-count:])
    if len(leaving) == len(running):
        return None
    counts = list(job.running_sizes)
    for index in leaving:
        counts[job.replicas[index].role] -= 1
    nodes = tuple(job.replicas[index].node for index in running if index not in leaving)
    return _transition(world, action, job, c.Transition.SHED, nodes=nodes, sizes=tuple(counts), leaving=leaving)


def _transition(
    world: World,
    action: Action,
    job: Job,
    kind: c.Transition,
    *,
    nodes: tuple[str, ...] = (),
    sizes: tuple[int, ...] = (),
    leaving: tuple[int, ...] = (),
) -> c.TransitionPlanned:
    return c.TransitionPlanned(
        plan=_named(world, action, job),
        job=job.name,
        incarnation=job.incarnation,
        kind=kind,
        sources=job.running_on,
        nodes=nodes,
        sizes=sizes,
        leaving=leaving,
        because=c.Because(rule="the schedule says so"),
    )

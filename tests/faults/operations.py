"""What users and operators do to a world, that is no fault: jobs, their ends, plans, and parameters."""

from __future__ import annotations

from tests.faults.schedule import Deed
from tests.faults.world import World, parameters

from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.registry import FLAGS, reads_for
from steepest.testing.system.fake_training import PROGRAM
from steepest.view.state import Job


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
    _, job = found
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
    await _plan_transition(world, deed, found, kind=kind, nodes=nodes, sizes=sizes)


async def shed(world: World, deed: Deed) -> None:
    """An operator plans that the last ``count`` workers of a gang leave, and that the others train on."""
    found = _job(world, deed.about)
    if found is None or not found[1].spec.is_gang:
        return
    _, job = found
    running = [index for index, replica in enumerate(job.replicas) if replica.alive]
    leaving = tuple(running[-int(deed.options["count"]) :])
    if len(leaving) == len(running):
        return
    world.note_strike(deed.verb)
    counts = list(job.running_sizes)
    for index in leaving:
        counts[job.replicas[index].role] -= 1
    nodes = tuple(job.replicas[index].node for index in running if index not in leaving)
    await _plan_transition(
        world, deed, found, kind=c.Transition.SHED, nodes=nodes, sizes=tuple(counts), leaving=leaving
    )


async def configure(world: World, deed: Deed) -> None:
    """An operator changes parameters; with ``flags``, to what this release decides by."""
    world.note_strike(deed.verb if "flags" not in deed.options else "reads")
    for pool, view in world.views().items():
        wanted = parameters({**world.schedule.world, **deed.options})
        flags = tuple(FLAGS) if "flags" in deed.options else view.state.flags
        reads = max(view.state.reads, reads_for(wanted, flags))
        await world.append(pool, c.PoolConfigured(reads=reads, flags=flags, parameters=wanted))


def _job(world: World, name: str) -> tuple[str, Job] | None:
    for pool, view in world.views().items():
        if (job := view.jobs.get(name)) is not None:
            return pool, job
    return None


def _plan(world: World, deed: Deed) -> str:
    return f"{deed.verb}-{deed.about}-{round(world.now_s * 1000)}"


async def _plan_transition(
    world: World,
    deed: Deed,
    found: tuple[str, Job],
    *,
    kind: c.Transition,
    nodes: tuple[str, ...],
    sizes: tuple[int, ...],
    leaving: tuple[int, ...] = (),
) -> None:
    pool, job = found
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
            leaving=leaving,
            because=c.Because(rule="the schedule says so"),
        ),
    )

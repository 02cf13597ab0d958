"""Pools of an installation that are added, or get other queues or more nodes.

It owns what may change: pools are added and never removed, and a pool keeps its nodes. It must never touch a pool's log.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from steepest.app.installation import apply_topics, kafka_of, open_log
from steepest.app.settings.amounts import node
from steepest.app.settings.toml_file import read_toml
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import KUBERNETES, Installation, NodeSpec, PoolSpec
from steepest.clock import SystemClock
from steepest.errors import InputError
from steepest.events.common import Name
from steepest.log.base import Log, TopicPartition
from steepest.log.files.file_lock import locked
from steepest.log.kafka.kafka_settings import AUTO, KafkaSettings
from steepest.runtime.recovery.log_identity import open_partitions

MOST_POOLS = 1_000
LOOK_EVERY_S = 1.0
"""Between two looks at the installation for pools that were added: reading its file costs a fraction of a millisecond."""

_FIRST = 16
"""A pool's log begins with its identity, which has no key, and the pool's configuration."""


class _DescribedPool(msgspec.Struct, forbid_unknown_fields=True):
    """A ``[[pool]]`` of a file."""

    name: Name
    nodes: tuple[str, ...] = ()
    queues: tuple[Name, ...] = ()


class _PoolFile(msgspec.Struct, forbid_unknown_fields=True):
    pool: tuple[_DescribedPool, ...]


def read_pools(path: Path) -> tuple[PoolSpec, ...]:
    """The pools that a TOML file describes: ``[[pool]]`` with ``name``, ``nodes`` as for ``--node``, and ``queues``.

    Raises:
        InputError: It cannot be read, or describes something else; the message names the field.
    """
    described = read_toml(path, _PoolFile, hint="see `steepest pool apply --help` for an example").pool
    return tuple(_spec(path, number, pool) for number, pool in enumerate(described))


def _spec(path: Path, number: int, pool: _DescribedPool) -> PoolSpec:
    try:
        return PoolSpec(name=pool.name, nodes=tuple(map(node, pool.nodes)), queues=pool.queues)
    except ValueError as error:
        raise InputError(f"{path}: $.pool[{number}].nodes: {error}", hint="write a node like n1=0.5:4Gi") from error


def with_pools(installation: Installation, wanted: Sequence[PoolSpec]) -> Installation:
    """The installation with these pools: new ones behind those that are there, known ones with their new queues.

    Raises:
        InputError: A known pool would lose or change nodes, a name of a pool, node or queue is not unique, a new pool has no
            node, or there are too many.
    """
    pools = {pool.name: pool for pool in installation.all_pools}
    if len({pool.name for pool in wanted}) < len(wanted):
        raise InputError("two pools have the same name", hint="describe each pool once")
    for pool in wanted:
        known = pools.get(pool.name)
        if known is not None and pool.nodes not in ((), known.nodes):
            raise InputError(
                f"the pool {pool.name} is there already, with other nodes",
                hint="leave its nodes out, or add another pool",
            )
        if known is not None and pool.name == installation.pool and pool.queues:
            raise InputError(
                f"{pool.name} is the first pool: it gets the jobs of every queue that no other pool has",
                hint="leave its queues out",
            )
        if known is None and not pool.nodes:
            raise InputError(f"the pool {pool.name} has no nodes", hint="name them with --node")
        pools[pool.name] = pool if known is None else msgspec.structs.replace(known, queues=pool.queues)
    _, *others = pools.values()
    changed = msgspec.structs.replace(installation, pools=tuple(others))
    _refuse_twice("node", [one.name for pool in changed.all_pools for one in pool.nodes])
    _refuse_twice("queue", [queue for pool in others for queue in pool.queues])
    if len(pools) > MOST_POOLS:
        raise InputError(f"{len(pools)} pools are more than {MOST_POOLS}", hint="use several installations")
    return changed


def _refuse_twice(what: str, names: Sequence[str]) -> None:
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise InputError(f"the {what} {twice[0]} would be there twice", hint=f"give each {what} to one pool, once")


def add_nodes(settings: Settings, pool: str, nodes: tuple[NodeSpec, ...]) -> Installation:
    """Put more nodes of a pool on record; the next start of the system has them.

    Raises:
        InputError: A system runs, whose services each opened the nodes that were there; or the nodes are of another kind
            than the pool's, have the name of another one, or belong to a Kubernetes cluster.
    """
    folder = settings.folder
    if folder.is_up:
        raise InputError(
            f"a system runs on {folder.root}, with the nodes that it found when it began",
            code="already-up",
            hint="stop `steepest up` by Ctrl-C or SIGTERM, add the node, and start it again: jobs run on meanwhile",
        )
    with folder.sole():
        before = folder.read()
        there = before.nodes_of(pool)
        if any(one.engine.startswith(KUBERNETES) for one in (*there, *nodes)):
            raise InputError("the nodes of a Kubernetes cluster are added there", hint="see docs/kubernetes.md")
        if len({bool(one.engine) for one in (*there, *nodes)}) > 1:
            raise InputError(
                f"the pool {pool} has {'engines' if there[0].engine else 'emulated nodes'}, and no others beside them",
                hint="give the others a pool of their own: `steepest pool add`",
            )
        first, *others = [
            msgspec.structs.replace(one, nodes=(*one.nodes, *nodes)) if one.name == pool else one
            for one in before.all_pools
        ]
        changed = msgspec.structs.replace(before, nodes=first.nodes, pools=tuple(others))
        _refuse_twice("node", [one.name for each in changed.all_pools for one in each.nodes])
        folder.create(changed)
    return changed


async def apply_pools(settings: Settings, wanted: Sequence[PoolSpec]) -> Installation:
    """Put pools on record, and give each new one its partitions.

    On Kafka the services may run meanwhile: each notices the pools, and works on them. A system whose log is in files must
    not run.

    Raises:
        InputError: As :func:`with_pools`, or a system with its log in files runs.
        LogUnavailableError: The log cannot get the partitions; calling it again goes on.
    """
    folder = settings.folder
    kafka = _broker(settings)
    async with AsyncExitStack() as stack:
        if kafka is None:
            stack.enter_context(folder.sole())
        if folder.opening_lock is not None:
            await stack.enter_async_context(locked(folder.opening_lock))
        before = folder.read()
        installation = with_pools(before, wanted)
        if kafka is not None:
            # It answers, so that what is on record from the next line on gets its partitions.
            await apply_topics(kafka, before.layout)
        folder.create(installation)
        if kafka is not None:
            await apply_topics(kafka, installation.layout)
        elif folder.has_log_in_files and not settings.kafka.bootstrap:
            await _grow_files(settings, installation)
    return installation


def _broker(settings: Settings) -> KafkaSettings | None:
    """Where the topics are that must grow now; None where the log is in files, or its own broker starts with `up`."""
    if settings.kafka.bootstrap == AUTO and settings.folder.running() is None:
        return None
    return kafka_of(settings)


async def _grow_files(settings: Settings, installation: Installation) -> None:
    log = open_log(settings, installation)
    try:
        await open_partitions(log, installation.layout, SystemClock())
    finally:
        await log.close()


async def open_mounted(settings: Settings) -> Installation:
    """Give the pools of an installation that a file describes their topics and partitions.

    Raises:
        InputError: A pool's partition is another pool's: the file has lost a pool, or has another order.
        LogUnavailableError: The log cannot get the partitions; calling it again goes on.
    """
    installation = settings.folder.read()
    kafka = kafka_of(settings)
    assert kafka is not None  # noqa: S101 - settings are read so
    await apply_topics(kafka, installation.layout)
    log = open_log(settings, installation)
    try:
        for pool in installation.all_pools:
            at = installation.layout.of_pool(pool.name)
            found = await _pool_of(log, at)
            if found not in ("", pool.name):
                raise InputError(
                    f"{at} is the log of the pool {found}, and the file has {pool.name} in its place",
                    hint="leave every pool where it is in the file, and add new ones at the end",
                )
    finally:
        await log.close()
    return installation


async def _pool_of(log: Log, at: TopicPartition) -> str:
    """The pool whose records are in a partition; empty where there are none."""
    begin, end = await log.begin(at), await log.end(at)
    reader = log.reader({at: begin})
    try:
        while begin < end:
            for record in await reader.poll(max_records=_FIRST):
                if record.key:
                    return record.key
                begin = record.offset + 1
        return ""
    finally:
        await reader.close()


async def pools_opened(settings: Settings, pools: tuple[str, ...]) -> list[str]:
    """The pools behind these whose log has been opened: one that is only on record would be waited for.

    None where these do not stand first any more, as in a described installation that lost one: each pool would get another's
    log.
    """
    now = settings.pools
    if now[: len(pools)] != pools or now == pools:
        return []
    installation = settings.folder.read()
    log = open_log(settings, installation, read_only=True)
    try:
        return [pool for pool in now[len(pools) :] if await log.end(installation.layout.of_pool(pool)) > 0]
    finally:
        await log.close()

"""``steepest nodes gone``: an operator says that a lost node never returns.

It owns the order: first the cluster is made to take what ran there for ended, so that nothing refuses its next start; then
the event is appended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.options import installation_options, json_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.cluster.port import Cluster

EPILOG = """\b
Examples:
  steepest nodes gone node-3
  steepest nodes gone node-3 --json

Say it only of a machine that is off or wiped: its jobs are started elsewhere from their last checkpoint. What is reached of
it is killed; should the node return all the same, it joins as a new one, and what still runs there is ended.
"""

KILL_WITHIN_S = 20.0
"""A node that is gone does not answer; one that does gets this long to end what runs there."""


@click.command(epilog=EPILOG)
@click.argument("node")
@installation_options
@json_option
def gone(node: str, settings: Settings, *, as_json: bool) -> None:
    """Say that the lost NODE never returns: its jobs go on elsewhere."""
    import asyncio

    jobs = asyncio.run(_gone(settings, node))
    if as_json:
        give({"node": node, "jobs": jobs})
        return
    tell(f"{node} is gone for good; {', '.join(jobs)} may go on elsewhere" if jobs else f"{node} is gone for good")


async def _gone(settings: Settings, name: str) -> list[str]:
    """The jobs that were there."""
    from steepest.cli.pool.user_requests import append, asking
    from steepest.events.cluster import NodeGone

    async with asking(settings) as (log, pool):
        jobs = _held_by(pool, name)
        await _end_what_ran(pool, name)
        await append(log, pool, NodeGone(node=name))
        return jobs


def _held_by(pool: StoredPool, name: str) -> list[str]:
    """The jobs of a lost node.

    Raises:
        InputError: There is no such node, or it is not lost.
    """
    from steepest.errors import InputError

    node = pool.view.nodes.get(name)
    if node is None:
        raise InputError(f"there is no node {name!r}", code="no-such-node", hint="see `steepest nodes`")
    if not node.lost:
        raise InputError(
            f"node {name} is not lost: it was heard of",
            code="not-lost",
            hint="stop the machine, wait until `steepest nodes` says that it is lost, and call this again",
        )
    return list(node.jobs)


async def _end_what_ran(pool: StoredPool, name: str) -> None:
    """Kill what answers, and take the rest for ended: it is the operator's word that it is."""
    import asyncio

    from steepest.app.installation import open_cluster
    from steepest.cluster.folders.adapter_folder import AdapterFolder
    from steepest.cluster.observation import declare_gone, recorded_end

    files = AdapterFolder(pool.folder.cluster)
    cluster = open_cluster(pool.folder, pool.installation, pool.name)
    try:
        for one in await asyncio.to_thread(cluster.files, name):
            there = files.incarnation(one.replica, one.incarnation)
            if await asyncio.to_thread(recorded_end, there) is not None:
                continue
            if not await _killed(cluster, one.replica.job, one.replica.index, one.incarnation):
                await asyncio.to_thread(declare_gone, there, f"node {name} is gone for good, an operator said")
    finally:
        await cluster.close()


async def _killed(cluster: Cluster, job: str, index: int, incarnation: int) -> bool:
    """Whether the node was reached, and nothing of the incarnation runs any more."""
    import asyncio

    from steepest.cluster.port import ReplicaId
    from steepest.errors import ClusterError

    try:
        async with asyncio.timeout(KILL_WITHIN_S):
            await cluster.stop(ReplicaId(job, index), incarnation, grace_s=0.0)
    except (ClusterError, TimeoutError):
        return False
    return True

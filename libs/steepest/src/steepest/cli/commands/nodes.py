"""``steepest nodes``: what every node has, holds and uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.commands.drain import drain, undrain
from steepest.cli.commands.gone import gone
from steepest.cli.options import NodeType, installation_options, json_option, remote_options
from steepest.cli.printing.output import give, tell
from steepest.cli.system.node_selection import cluster_option, engines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steepest.app.settings.tree import Settings
    from steepest.cli.printing.tables import Cell
    from steepest.read_models.node_rows import NodeRow

EPILOG = """\b
Examples:
  steepest nodes
  steepest nodes --json | jq '.[] | {node, score}'
  steepest nodes add big=16:64Gi    one more node, from the next start on
  steepest nodes drain node-3       no more jobs start there; undrain lets them
  steepest nodes gone node-3        node-3 never returns: its jobs go on elsewhere
  steepest nodes --server kube:lab/training       of the gateway in this context and namespace

The score is SpeCon's: 2 for each progressing job, 1.5 for each watched one, 1 for each converged one, unless the pool's
parameters say otherwise. A converged job moves to the node with the lowest. Limited are the jobs whose CPU FlowCon limits.
"""

ADD_EPILOG = """\b
Examples:
  steepest nodes add big=16:64Gi:gpus=2
  steepest nodes add --cluster docker=gpu-box

No system may run meanwhile: stop `steepest up` by Ctrl-C or SIGTERM. Its jobs run on, and its next start takes them over.
Leave --node and --cluster out there.
"""

COLUMNS = ("node", "state", "#capacity", "#reserved", "#used", "#limited", "#score", "#jobs", "#PC", "#WC", "#CC", "#?")
GIVING_WAY = ("#limited", "#jobs", "state", "#reserved")


@click.group(epilog=EPILOG, invoke_without_command=True)
@remote_options
@json_option
@click.pass_context
def nodes(ctx: click.Context, settings: Settings, *, as_json: bool) -> None:
    """Show what every node has, what is reserved and used of it, its score, and its jobs by category."""
    if ctx.invoked_subcommand is not None:
        return
    if settings.client.server:
        _of_gateway(settings, as_json=as_json)
        return
    from steepest.cli.pool.stored_pool import look
    from steepest.read_models.node_rows import node_row

    pool = look(settings)
    rows = [node_row(pool.view, node) for node in pool.view.nodes]
    if as_json:
        give(rows)
        return
    _show(rows)
    if pool.note:
        tell(pool.note, err=True)


@nodes.command(epilog=ADD_EPILOG)
@click.argument("described", metavar="NODES", type=NodeType(), nargs=-1)
@cluster_option
@installation_options
@json_option
def add(settings: Settings, *, described: Sequence[str], cluster: str | None, as_json: bool) -> None:
    """Add NODES, like n2=4:16Gi, or Docker engines to a pool that no system runs on now."""
    from steepest.app.pool_changes import add_nodes
    from steepest.app.settings.amounts import node

    sizes = tuple(map(node, described))
    new = engines(cluster, sizes) or sizes
    if not new:
        raise click.UsageError("name a node like n2=4:16Gi, or engines with --cluster docker=HOST")
    pool = settings.pool or settings.folder.read().pool
    installation = add_nodes(settings, pool, new)
    names = [one.name for one in installation.nodes_of(pool)]
    if as_json:
        give({"pool": pool, "nodes": names})
    else:
        tell(f"the pool {pool} has {', '.join(names)} from the next `steepest up` on")


nodes.add_command(gone)
nodes.add_command(drain)
nodes.add_command(undrain)


def _of_gateway(settings: Settings, *, as_json: bool) -> None:
    from steepest.cli.pool.remote import client_of, refuse_without_client

    refuse_without_client(settings)
    with client_of(settings) as gateway:
        rows = gateway.nodes(pool=settings.pool)
    give(rows) if as_json else _show(rows)


def _show(rows: Sequence[NodeRow]) -> None:
    from steepest.cli.printing.tables import show

    if not rows:
        tell("no node has joined yet")
        return
    with_gpus = any(row.gpus.total for row in rows)
    columns = (*COLUMNS[:5], *(("#GPUs",) if with_gpus else ()), *COLUMNS[5:])
    show(columns, [_row(row, with_gpus=with_gpus) for row in rows], GIVING_WAY)
    for row in rows:
        if row.slow:
            tell(f"{row.node} is drained because it is slow: {row.slow}; `steepest nodes undrain {row.node}` opens it")


def _state(row: NodeRow) -> Cell:
    if row.lost:
        return ("lost", "red")
    if row.drained:
        return ("drained", "yellow")
    if row.gpus.failed:
        return (f"GPU {', '.join(str(one.gpu) for one in row.gpus.failed)} failed", "red")
    return ("ready", "green") if row.takes_jobs else "reports only"


def _row(row: NodeRow, *, with_gpus: bool) -> list[Cell]:
    from steepest.cli.live.colours import CATEGORIES

    styles = [*CATEGORIES.values(), ""]
    return [
        row.node,
        _state(row),
        row.capacity.text,
        row.reserved.text,
        f"{row.used.cpu_m}m CPU",
        *([f"{row.gpus.reserved:g} / {row.gpus.total}"] if with_gpus else []),
        f"{len(row.limits)} of {len(row.jobs)}" if row.limits else "",
        f"{row.score:g}",
        str(sum(row.replicas.values())),
        *((str(number), style) for number, style in zip(row.replicas.values(), styles, strict=True)),
    ]

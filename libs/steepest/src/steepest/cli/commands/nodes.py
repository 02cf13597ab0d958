"""``steepest nodes``: what every node has, holds and uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.commands.add_nodes import add
from steepest.cli.commands.drain import drain, undrain
from steepest.cli.commands.gone import gone
from steepest.cli.options import json_option, remote_options
from steepest.cli.printing.output import give, tell

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


nodes.add_command(add)
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

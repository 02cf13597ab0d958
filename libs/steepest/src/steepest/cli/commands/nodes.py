"""``steepest nodes``: what every node has, holds and uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from steepest.cli.commands.gone import gone
from steepest.cli.options import installation_options, json_option
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steepest.app.settings.tree import Settings
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.cli.printing.tables import Cell
    from steepest.view.state import Node

EPILOG = """\b
Examples:
  steepest nodes
  steepest nodes --json | jq '.[] | {node, score}'
  steepest nodes gone node-3        node-3 never returns: its jobs go on elsewhere

The score is SpeCon's: 2 for each progressing job, 1.5 for each watched one, 1 for each converged one, unless the pool's
parameters say otherwise. A converged job moves to the node with the lowest. Limited are the jobs whose CPU FlowCon limits.
"""

COLUMNS = ("node", "state", "#capacity", "#reserved", "#used", "#limited", "#score", "#jobs", "#PC", "#WC", "#CC", "#?")
GIVING_WAY = ("#limited", "#jobs", "state", "#reserved")


@click.group(epilog=EPILOG, invoke_without_command=True)
@installation_options
@json_option
@click.pass_context
def nodes(ctx: click.Context, settings: Settings, *, as_json: bool) -> None:
    """Show what every node has, what is reserved and used of it, its score, and its jobs by category."""
    if ctx.invoked_subcommand is not None:
        return
    from steepest.cli.pool.stored_pool import look
    from steepest.cli.printing.tables import show

    pool = look(settings)
    if as_json:
        assigned = gpu_ids(pool)
        give([as_dict(pool, node, assigned.get(node.name, {})) for node in pool.view.nodes])
        return
    if len(pool.view.nodes) or list(pool.view.nodes):
        with_gpus = any(node.capacity.gpus for node in pool.view.nodes)
        columns = (*COLUMNS[:5], *(("#GPUs",) if with_gpus else ()), *COLUMNS[5:])
        show(columns, [_row(pool, node, with_gpus=with_gpus) for node in pool.view.nodes], GIVING_WAY)
    else:
        tell("no node has joined yet")
    if pool.note:
        tell(pool.note, err=True)


nodes.add_command(gone)


def as_dict(pool: StoredPool, node: Node, assigned: Mapping[str, list[int]]) -> dict[str, object]:
    """A node for programs. CPU in millicores, memory in MiB, GPUs in GPUs; ``assigned``: the ids of theirs by job."""
    progressing, watched, converged = node.replicas
    return {
        "node": node.name,
        "lost": node.lost,
        "takes_jobs": node.takes_jobs,
        "capacity": _amounts(node.capacity.cpu_m, node.capacity.memory_mib),
        "reserved": _amounts(node.allocated.cpu_m, node.allocated.memory_mib),
        "used": _amounts(node.used.cpu_m, node.used.memory_mib),
        "gpus": {
            "total": node.capacity.gpus,
            "reserved": node.allocated.all_gpus_m / 1000,
            "assigned": assigned,
        },
        "limits": limits(pool, node),
        "score": pool.view.nodes.score(node),
        "replicas": {"PC": progressing, "WC": watched, "CC": converged, "unknown": node.unknown},
        "jobs": [job.name for job in pool.view.jobs if node.name in job.holds],
    }


def limits(pool: StoredPool, node: Node) -> dict[str, int]:
    """The CPU limits in force on a node, in millicores, by job; a job without one is not there."""
    there = ((name, pool.view.jobs[name]) for name in node.jobs)
    return {
        name: job.limit.in_force_m
        for name, job in there
        if job.limit is not None and job.limit.in_force_m is not None and node.name in job.nodes
    }


def gpu_ids(pool: StoredPool) -> dict[str, dict[str, list[int]]]:
    """The ids of the GPUs that replicas have, by node and job, as the nodes' adapter keeps them in the state folder."""
    from steepest.cluster.folders.adapter_folder import AdapterFolder
    from steepest.cluster.folders.gpu_table import GpuTable
    from steepest.errors import RefusedError

    found: dict[str, dict[str, list[int]]] = {}
    try:
        for one in GpuTable(AdapterFolder(pool.folder.cluster), {}).assigned():
            ids = found.setdefault(one.node, {}).setdefault(one.job, [])
            ids += [gpu for gpu in one.ids if gpu not in ids]
    except RefusedError as error:
        tell(f"Warning: {error}", err=True)
    return found


def _amounts(cpu_m: int, memory_mib: int) -> dict[str, int]:
    return {"cpu_m": cpu_m, "memory_mib": memory_mib}


def _state(node: Node) -> Cell:
    if node.lost:
        return ("lost", "red")
    return ("ready", "green") if node.takes_jobs else "reports only"


def _row(pool: StoredPool, node: Node, *, with_gpus: bool) -> list[Cell]:
    from steepest.demo.colours import CATEGORIES
    from steepest.view.nodes import format_resources

    limited = len(limits(pool, node))
    styles = [*CATEGORIES.values(), ""]
    return [
        node.name,
        _state(node),
        format_resources(node.capacity),
        format_resources(node.allocated),
        f"{node.used.cpu_m}m CPU",
        *([f"{node.allocated.all_gpus_m / 1000:g} / {node.capacity.gpus}"] if with_gpus else []),
        f"{limited} of {len(node.jobs)}" if limited else "",
        f"{pool.view.nodes.score(node):g}",
        str(node.count),
        *((str(number), style) for number, style in zip((*node.replicas, node.unknown), styles, strict=True)),
    ]

"""The result of a run of gangs: how they were scaled, and what it shows about locality. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from steepest.cli.live.colours import GAIN, LOSS
from steepest.cli.live.picture import clock
from steepest.describe import count, span
from steepest.read_models.preemptions_and_scalings import Scaling, Scalings
from steepest_lab.demo.report import Table

SCALINGS_GIVE_WAY = ("why", "#paused", "outcome")
"""Columns that a narrow terminal shows less of, the least important first."""


class ScalingSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One scaling; ``took_s`` and ``paused_s`` are None where it failed or the run ended before it did."""

    job: str
    at_s: float
    replicas: tuple[int, int]
    nodes: Sequence[str]
    room_for: str | None
    rule: str
    took_s: float | None
    paused_s: float | None
    steps_lost: int
    failed: str


class GangSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run of gangs in figures.

    Attributes:
        scale_ups: How often a gang has grown.
        scale_downs: How often a gang has shrunk.
        link_mbit: The rate of the nodes' links, in Mbit/s; None: they had none.
        locality: What the run says of locality.
    """

    scale_ups: int
    scale_downs: int
    link_mbit: int | None
    locality: str
    scalings: list[ScalingSummary]


def gang_summary(scalings: Scalings, began_ms: int, link_mbit: int | None, why_no_links: str) -> GangSummary:
    """The gangs' part of a run in figures."""
    return GangSummary(
        scale_ups=scalings.ups,
        scale_downs=scalings.downs,
        link_mbit=link_mbit,
        locality=locality(link_mbit, why_no_links),
        scalings=[_summary(one, began_ms) for one in scalings.all],
    )


def _summary(one: Scaling, began_ms: int) -> ScalingSummary:
    return ScalingSummary(
        job=one.job,
        at_s=(one.planned_ms - began_ms) / 1000,
        replicas=(one.before, one.after),
        nodes=one.nodes,
        room_for=one.room_for,
        rule=one.rule,
        took_s=None if one.took_ms is None else one.took_ms / 1000,
        paused_s=None if one.paused_ms is None else one.paused_ms / 1000,
        steps_lost=one.steps_lost,
        failed=one.failed,
    )


def locality(link_mbit: int | None, why_no_links: str) -> str:
    """A sentence on what a run shows about locality."""
    if link_mbit is not None:
        return f"Links of {link_mbit} Mbit/s join the nodes: a gang that spans both exchanges its gradients over them."
    return f"All nodes are on this machine's loopback ({why_no_links}): this run proves nothing of locality."


def result(scalings: Scalings) -> str:
    """How often gangs were scaled, in words."""
    return f"gangs shrunk {count(scalings.downs, 'time')} and grew {count(scalings.ups, 'time')}"


def scaling_table(scalings: Scalings, began_ms: int) -> Table:
    """A row a scaling: which gang, from how many replicas to how many, why, and what it cost."""
    columns = ("at", "job", "replicas", "nodes", "why", "#took", "#paused", "#steps lost", "outcome")
    return columns, [
        [
            clock(one.planned_ms - began_ms),
            one.job,
            f"{one.before} → {one.after}",
            "+".join(one.nodes),
            f"{one.room_for} starves" if one.room_for else "nothing waits for its room",
            "" if one.took_ms is None else span(one.took_ms),
            "" if one.paused_ms is None else span(one.paused_ms),
            str(one.steps_lost),
            ("done", GAIN) if one.took_ms is not None else (one.failed or "broken off", LOSS),
        ]
        for one in scalings.all
    ]

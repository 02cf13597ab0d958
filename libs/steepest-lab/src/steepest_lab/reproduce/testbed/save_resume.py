"""The cost of saving and resuming a training, by its progress (thesis §3.2, Figures 3.2 and 3.3).

A training of each kind runs alone on two emulated nodes by turns. At each point it saves on request, is stopped, and resumes
on the other node from what it saved. Its cost is the time from the request to the first step after it, in real seconds.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from steepest.cluster.local.cluster import LocalCluster, LocalNode
from steepest.cluster.port import Cluster, ReplicaId, ReplicaSpec
from steepest.events.common import Resources
from steepest_lab.reproduce.experiments.placement import Start
from steepest_lab.reproduce.experiments.run import ExperimentFigure, Part
from steepest_lab.reproduce.testbed.jobs import KINDS, ONE_BATCH, Cost
from steepest_lab.reproduce.verdict import Unit
from steepest_lab.sim.estimate import estimate

MODELS = ("vae-pytorch", "gru-pytorch", "rnn-pytorch", "bi-rnn-pytorch", "dynamic-rnn-pytorch")
"""The thesis' five kinds."""

POINTS = (0.2, 0.4, 0.6, 0.8)
"""Shares of the training at which it is interrupted."""

LENGTH_S = 5.0
"""CPU time of each training; the size of its checkpoint does not depend on it."""

NODE_M = 800
TIMEOUT_S = 60.0


class Pause(msgspec.Struct, frozen=True, kw_only=True):
    """One interruption.

    Attributes:
        progress: Share of the training that was done.
        save_s: From the request to the verified checkpoint, in seconds.
        resume_s: From there to the first step of the next process.
    """

    model: str
    progress: float
    save_s: float
    resume_s: float


def pauses(
    costs: Mapping[str, Cost], seed: int, models: Sequence[str] = MODELS, length_s: float = LENGTH_S
) -> list[Pause]:
    """Interrupt a training of each model at every point.

    Raises:
        ClusterError: A training failed, or did not save or resume in time.
    """
    with tempfile.TemporaryDirectory(prefix="steepest-") as folder:
        return asyncio.run(_pauses(Path(folder), costs, seed, models, length_s))


async def _pauses(
    folder: Path, costs: Mapping[str, Cost], seed: int, models: Sequence[str], length_s: float
) -> list[Pause]:
    found: list[Pause] = []
    nodes = [LocalNode(f"n{number}", Resources(cpu_m=NODE_M)) for number in (1, 2)]
    cluster = LocalCluster(folder, nodes, "save-resume", heartbeat_s=0.5)
    try:
        for model in models:
            steps = max(len(POINTS) * 10, round(length_s / costs[model].step_s))
            found += await _interrupted(cluster, model, steps, seed)
    finally:
        await cluster.close()
    return found


async def _interrupted(cluster: Cluster, model: str, steps: int, seed: int) -> list[Pause]:
    clock, replica = asyncio.get_running_loop().time, ReplicaId(model)
    options = ("--steps", str(steps), "--seed", str(seed), *ONE_BATCH)
    spec = ReplicaSpec(command=(sys.executable, "-m", f"steepest_lab.jobs.{KINDS[model]}", *options))
    found: list[Pause] = []
    incarnation = 1
    await cluster.start(replica, incarnation, "n1", spec, None)
    try:
        for progress in POINTS:
            await cluster.wait_for_step(replica, incarnation, at_least=round(progress * steps), timeout_s=TIMEOUT_S)
            asked = clock()
            request = f"at-{progress:g}"
            saved = await cluster.checkpoint(
                replica, incarnation, request=request, hold_s=TIMEOUT_S, timeout_s=TIMEOUT_S
            )
            kept = clock()
            await cluster.stop(replica, incarnation, grace_s=TIMEOUT_S)
            incarnation += 1
            await cluster.start(replica, incarnation, f"n{2 - incarnation % 2}", spec, saved)
            await cluster.wait_for_step(replica, incarnation, at_least=saved.step + 1, timeout_s=TIMEOUT_S)
            found.append(Pause(model=model, progress=progress, save_s=kept - asked, resume_s=clock() - kept))
    finally:
        await cluster.stop(replica, incarnation, grace_s=TIMEOUT_S)
    return found


def rows(found: Sequence[Pause]) -> Iterator[ExperimentFigure]:
    """The mean cost of each model at each point, and of its two parts over all points."""
    for model in dict.fromkeys(one.model for one in found):
        mine = [one for one in found if one.model == model]
        for progress in POINTS:
            there = [one.save_s + one.resume_s for one in mine if one.progress == progress]
            yield _row(model, f"save and resume at {100 * progress:.0f} %", there)
        yield _row(model, "of it, saving", [one.save_s for one in mine])
        yield _row(model, "of it, resuming", [one.resume_s for one in mine])


def _row(model: str, metric: str, values: Sequence[float]) -> ExperimentFigure:
    ours = estimate(values)
    return ExperimentFigure(
        part=Part.OVERHEAD,
        experiment=model,
        setting="",
        start=Start.ONE_NODE,
        metric=metric,
        unit=Unit.SECONDS,
        jobs=1,
        published=None,
        chart=False,
        ours=ours.mean,
        low=ours.low,
        high=ours.high,
        deviation=ours.deviation,
        verdict=None,
    )

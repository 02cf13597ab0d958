"""Whether jobs that announce their length end later than those that do not, on real processes.

Six jobs come at once to one emulated node, of two lengths. Of each length, one logs ``step 3/40 loss 0.41``, one
``Epoch 3/40 | loss 0.41`` and one ``Epoch 3 | loss 0.41``. They know nothing of Steepest, and name no model. Once they share
the node equally, and once under ``steepest``; every second pair begins with the policy.

Changes of completion times are in %, with the 95 % interval of their mean over the pairs (Student's t). ``against silent``
is by how much the announcing jobs of a length ended later than the silent one of it, under ``steepest``.

``--out FILE`` appends a JSON line a pair, and skips what the file holds already. Other work on the machine changes the
figures.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import sys
from functools import partial
from pathlib import Path

from benchmarks.frame.bench import changed, doing, figure, kept, options

from steepest.cli.live.audience import NoAudience
from steepest.events.cluster import JobSpec, Outcome
from steepest_lab.demo.play import Play
from steepest_lab.demo.workload import REQUEST, Arrival, DemoWorkload, parameters
from steepest_lab.reproduce.testbed import nodes

SHARE = 0.4
"""Of two cores, for the node."""

JOB = """
import sys, time, numpy as np
epochs, style, each_s = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
a = np.random.default_rng(0).normal(size=(200, 200))
for epoch in range(1, epochs + 1):
    while time.thread_time() < epoch * each_s:
        a = np.tanh(a @ a)
    loss = 3 * 0.97**epoch + 0.1
    print({"steps": f"step {epoch}/{epochs} loss {loss:.4f}", "epochs": f"Epoch {epoch}/{epochs} | loss {loss:.4f}",
           "nothing": f"Epoch {epoch} | loss {loss:.4f}"}[style], flush=True)
"""
STYLES = ("nothing", "steps", "epochs")
"""The silent job of each length is submitted first."""

EPOCHS = (12, 40)
FAIR, OURS = "spread", "steepest"


def main() -> None:
    """Run the pairs that are not known yet."""

    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--state", type=Path, default=Path("out/announcing"), help="for the recordings")
        parser.add_argument("--out", type=Path, help="JSON lines of what was measured")

    asked = options(__doc__, more, pairs=(1, 1, 3), epoch_s=(0.02, 0.2, 0.5))
    rows = [
        kept(
            asked.out,
            {"epoch_s": asked.epoch_s, "pair": number},
            partial(pair, asked.epoch_s, number, asked.state / str(number)),
        )
        for number in range(asked.pairs)
    ]
    for style in STYLES:
        own, silent = [[name(one, count) for count in EPOCHS] for one in (style, STYLES[0])]
        later = [
            100 * (row[OURS][job] / row[OURS][other] - 1)
            for row in rows
            for job, other in zip(own, silent, strict=True)
        ]
        changes = [
            100
            * (statistics.fmean(row[OURS][job] for job in own) / statistics.fmean(row[FAIR][job] for job in own) - 1)
            for row in rows
        ]
        figure(f"say {style}", change=changed(changes), **{"against silent": changed(later)})


def pair(epoch_s: float, number: int, folder: Path) -> dict[str, dict[str, float]]:
    """Completion times in seconds, by policy and job."""
    order = (FAIR, OURS) if number % 2 == 0 else (OURS, FAIR)
    return {policy: completions(epoch_s, policy, folder / policy) for policy in order}


def completions(epoch_s: float, policy: str, folder: Path) -> dict[str, float]:
    """One run."""
    doing(f"pair {folder.parent.name}: under {policy}")
    shutil.rmtree(folder, ignore_errors=True)
    play = Play(folder, workload(epoch_s), parameters(policy))
    story = asyncio.run(play.run(NoAudience()))
    if play.interrupted.is_set():
        raise KeyboardInterrupt
    if unfinished := [job.name for job in story.jobs.values() if job.outcome is not Outcome.FINISHED]:
        raise SystemExit(f"{', '.join(unfinished)} did not finish: steepest jobs --state {folder}")
    return {job.name: (job.completion_ms or 0) / 1000 for job in story.jobs.values()}


def workload(epoch_s: float) -> DemoWorkload:
    """The jobs."""
    arrivals = [
        Arrival(
            at_s=0.0,
            job=name(style, count),
            kind=style,
            spec=JobSpec(command=(sys.executable, "-c", JOB, str(count), style, str(epoch_s)), requests=REQUEST),
            core_s=count * epoch_s,
        )
        for style in STYLES
        for count in EPOCHS
    ]
    return nodes.emulated(1, SHARE).staged(tuple(arrivals))


def name(style: str, count: int) -> str:
    """Of a job."""
    return f"{style}-{count}"


if __name__ == "__main__":
    main()

"""Shockwave's benchmark: our rule for whole gangs beside its peers, in the rules of its simulator.

120 jobs on 32 GPUs, or 220 on 64 (``steepest_lab.sim.shockwave``), from our profiles of its traces. Beside each peer that
was published stands how far its mean and its makespan are from the published simulation. *seen*: a rule is given what is
left at the present batch size, as the peers are; *exact*: it is given what is left by the profiles.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from steepest_lab.sim.shockwave.jobs import RoundJob, profiles
from steepest_lab.sim.shockwave.peers import Gavel, InOrder, Ours, allox, level, max_min, ossp, themis
from steepest_lab.sim.shockwave.rounds import RoundFigures, RoundPolicy, run_rounds

GPUS = {120: 32, 220: 64}
CAPS = {120: 1.0, 220: 1.5}
"""A job that ran for longer than so many times its time alone is ended; the published comparison of 120 jobs has 1.0."""

RULES: Mapping[str, Callable[[], RoundPolicy]] = {
    "max-min": lambda: Gavel(max_min),
    "allox": lambda: Gavel(allox()),
    "ossp-like": lambda: Gavel(ossp),
    "themis": lambda: Gavel(themis()),
    "tiresias": lambda: InOrder(level),
    "srtf, exact": lambda: InOrder(lambda job: job.true_left_s),
    "srtf, seen": lambda: InOrder(lambda job: job.seen_left_s),
    "steepest, exact": lambda: Ours(lambda job: job.true_left_s),
    "steepest, seen": lambda: Ours(lambda job: job.seen_left_s),
    "steepest, exact, λ 0.45": lambda: Ours(lambda job: job.true_left_s, 0.45),
}

PUBLISHED = {
    "shockwave": "shockwave",
    "max-min": "max_min_fairness",
    "allox": "allox",
    "ossp-like": "min_total_duration",
    "themis": "finish_time_fairness",
}


def table(folder: Path, count: int) -> None:
    """Run and print one trace."""
    print(f"{count} jobs, {GPUS[count]} GPUs")
    published = _published(folder, count)
    for name, make in RULES.items():
        jobs = [RoundJob(profile) for profile in profiles(folder / f"profiles_{count}.jsonl.gz")]
        figures = run_rounds(jobs, GPUS[count], make(), CAPS[count])
        print(f"  {name:25} {_shown(figures)}{_against(figures, published.get(PUBLISHED.get(name, '')))}", flush=True)
    for name, key in PUBLISHED.items():
        if (one := published.get(key)) is not None:
            rho = one["finish_time_fairness"]
            unfair = 100 * sum(each > 1 for each in rho) / len(rho)
            print(
                f"  {name + ', published':25} makespan {one['makespan_s']:7,.0f}  mean {one['mean_jct_s']:7,.0f}"
                f"  worst {max(rho):5.2f}  unfair {unfair:4.1f} %"
            )


def _published(folder: Path, count: int) -> Mapping[str, Any]:
    if count != 120:  # noqa: PLR2004 - none of the others was published
        return {}
    found = msgspec.json.decode((folder / "results_120.json").read_bytes())
    return {name.removesuffix("/simulation"): one for name, one in found.items() if name.endswith("/simulation")}


def _shown(one: RoundFigures) -> str:
    return (
        f"makespan {one.makespan:7,.0f}  mean {one.mean:7,.0f}  worst {one.worst:5.2f}  unfair {one.unfair:4.1f} %"
        f"  restarts a job {one.restarts:4.1f}"
    )


def _against(one: RoundFigures, published: Mapping[str, Any] | None) -> str:
    if published is None:
        return ""
    mean, makespan = one.mean / published["mean_jct_s"] - 1, one.makespan / published["makespan_s"] - 1
    return f"  (published: mean {mean:+.1%}, makespan {makespan:+.1%})"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path, help="the folder that has shockwave/")
    parser.add_argument("--traces", nargs="+", type=int, default=list(GPUS), choices=list(GPUS))
    asked = parser.parse_args()
    for count in asked.traces:
        table(asked.data / "shockwave", count)


if __name__ == "__main__":
    main()

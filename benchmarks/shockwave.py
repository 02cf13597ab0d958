"""Shockwave's benchmark: our rule for whole gangs compared with its peers, in its simulator's rules.

120 jobs on 32 GPUs, or 220 on 64 (``steepest_lab.sim.shockwave``), from our profiles of its traces. Beside each peer that
was published stands how far its mean and its makespan are from the published simulation. *seen*: a rule is given what is
left at the present batch size, as the peers are; *exact*: it is given what is left by the profiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.frame.bench import data, each, figure, options

from steepest_lab.sim.shockwave.jobs import RoundJob, profiles
from steepest_lab.sim.shockwave.peers import Gavel, InOrder, Ours, allox, level, max_min, ossp, themis
from steepest_lab.sim.shockwave.rounds import RoundFigures, RoundPolicy, run_rounds

GPUS = {120: 32, 220: 64}
CAPS = {120: 1.0, 220: 1.5}
"""A job is ended after this multiple of its time alone; the published comparison of 120 jobs has 1.0."""

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


def table(folder: Path, count: int, rules: Sequence[str]) -> None:
    """Run and print one trace."""
    published = _published(folder, count)
    for name in each(f"{count} jobs, {GPUS[count]} GPUs", rules):
        jobs = [RoundJob(profile) for profile in profiles(folder / f"profiles_{count}.jsonl.gz")]
        one = run_rounds(jobs, GPUS[count], RULES[name](), CAPS[count])
        figure(
            f"{count} {name}",
            makespan_s=round(one.makespan),
            mean_s=round(one.mean),
            worst=round(one.worst, 2),
            unfair=round(one.unfair, 1),
            restarts=round(one.restarts, 1),
            **_against(one, published.get(PUBLISHED.get(name, ""))),
        )
    for name, key in PUBLISHED.items():
        if (found := published.get(key)) is not None:
            rho = found["finish_time_fairness"]
            figure(
                f"{count} {name}, published",
                makespan_s=round(found["makespan_s"]),
                mean_s=round(found["mean_jct_s"]),
                worst=round(max(rho), 2),
                unfair=round(100 * sum(each > 1 for each in rho) / len(rho), 1),
            )


def _published(folder: Path, count: int) -> Mapping[str, Any]:
    if count != 120:  # noqa: PLR2004 - none of the others was published
        return {}
    found = msgspec.json.decode((folder / "results_120.json").read_bytes())
    return {name.removesuffix("/simulation"): one for name, one in found.items() if name.endswith("/simulation")}


def _against(one: RoundFigures, published: Mapping[str, Any] | None) -> Mapping[str, float]:
    """How far mean and makespan are from the published ones, in %."""
    if published is None:
        return {}
    mean, makespan = one.mean / published["mean_jct_s"] - 1, one.makespan / published["makespan_s"] - 1
    return {"mean_off": round(100 * mean, 1), "makespan_off": round(100 * makespan, 1)}


def main() -> None:
    """Print the tables."""
    rules = (("srtf, seen",), tuple(RULES), tuple(RULES))
    asked = options(__doc__, traces=((120,), (120,), tuple(GPUS)), rules=rules)
    folder = data("shockwave") / "shockwave"
    for count in asked.traces:
        table(folder, count, asked.rules)


if __name__ == "__main__":
    main()

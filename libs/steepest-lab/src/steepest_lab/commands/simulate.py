"""``steepest simulate``: compares policies on a workload, in virtual time.

Owns the command's options. What it gives back is in :mod:`steepest_lab.commands.simulate_summary`. Must never know a policy.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from steepest.cli.options import FolderPath
from steepest.cli.printing.output import console, give

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from steepest_lab.sim.result import SimulationResult
    from steepest_lab.sim.whatif.run import WhatIf

R = TypeVar("R")

MOST_SEEDS = 100_000
MOST_DIGITS = 18
SHOWN = 60

FROM_HELP = "A recording to play on, instead of a workload: what would come under other policies?"

EPILOG = """\b
Examples:
  steepest simulate --workload thesis:mixed-20 --cluster 4x8cpu --policy spread,specon
  steepest simulate --workload thesis:mixed-50 --cluster 4x8cpu --policy spread,steepest --seed 0-9 --pin
  steepest simulate --workload trace.csv --cluster 8x8gpu --policy fifo,srtf,tiresias --json
  steepest simulate --workload jobs.jsonl --cluster 4x8cpu --policy spread,spread:srtf,steepest:priority
  steepest simulate --workload trace3.csv --cluster 8x8gpu --policy tiresias --rules muri
  steepest simulate --workload thesis:mixed-50 --cluster 8x8cpu --policy specon --seed 0-9 --out results
  steepest simulate --from .steepest --at 900 --policy spread,specon+flowcon --seed 0-9
  steepest simulate --policies

Workloads: traces of Muri, Tiresias, Pollux, Gavel, Philly and openb, Slurm's `sacct --parsable2`, your own JSON Lines,
or thesis:NAME (docs/workloads.md). The same seed gives the same result on any machine, alone or in parallel.
"""


def _list_policies(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's own form
    if not value:
        return
    from steepest.cli.printing.tables import show
    from steepest_lab.sim.policies import about, names

    show(("policy", "what it does"), [(name, about(name)) for name in names()])
    ctx.exit()


@click.command(epilog=EPILOG)
@click.option("--workload", metavar="FILE|NAME", help="Simulate these jobs.")
@click.option("--cluster", metavar="SPEC", help="Simulate these nodes: 8x8gpu, 4x16cpu+2x8cpu, or a TOML file.")
@click.option("--from", "recording", type=click.Path(exists=True, file_okay=False, path_type=Path), help=FROM_HELP)
@click.option("--at", "position", type=int, help="With --from: take what is before this position as the past.")
@click.option(
    "--policy",
    "policies",
    metavar="NAME[,NAME…]",
    help="Compare these policies; see --policies. Of a pool also NAME:QUEUE: with that queue policy.",
)
@click.option(
    "--seed", "seeds", default="0", metavar="N[,N…]", show_default=True, help="Use these seeds; also ranges: 0-9."
)
@click.option("--pin", "pinned", is_flag=True, help="Begin every job where spread places it first, under every policy.")
@click.option("--blocking", is_flag=True, help="In a pool, let a job without room hold back those behind it.")
@click.option(
    "--rules", default="default", show_default=True, help="Use these costs and placements: default, muri or pollux."
)
@click.option(
    "--profiles", type=click.Path(path_type=Path), help="Read measured tables from this folder, for --rules pollux."
)
@click.option(
    "--out",
    type=FolderPath(),
    help="Write jobs.csv, summary.json and changes.json there.",
)
@click.option("--jobs", "workers", type=click.IntRange(min=1), help="Use so many processes; default: one per core.")
@click.option("--json/--no-json", "as_json", default=False, help="Print one JSON object for each run and nothing else.")
@click.option(
    "--policies",
    "listed",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_policies,
    help="List the policies and exit.",
)
def simulate(
    *,
    workload: str | None,
    cluster: str | None,
    recording: Path | None,
    position: int | None,
    policies: str | None,
    seeds: str,
    pinned: bool,
    blocking: bool,
    rules: str,
    profiles: Path | None,
    out: Path | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Run a workload on simulated nodes under one policy or several, and compare what comes out.

    Times are in seconds. SpeCon and FlowCon run as they do live: the same deciders, view and migration steps.
    """
    from steepest.events.parameters import PoolParameters, QueueParameters
    from steepest_lab.sim.run import SimulationSpec
    from steepest_lab.sim.run import simulate as simulate_one

    chosen = list(dict.fromkeys(name.strip() for name in (policies or "").split(",") if name.strip()))
    seed_list = _seeds(seeds)
    if recording is None and position is not None:
        raise click.UsageError("--at is a position of a recording; name the recording with --from")
    if recording is not None:
        from steepest_lab.sim.whatif.run import what_if

        if workload or cluster or rules != "default" or profiles or pinned or blocking:
            raise click.UsageError("a recording brings its own jobs, nodes and rules; leave those options out")
        what_ifs = _what_ifs(recording, position, chosen, seed_list)
        _make_folder(out)
        results = _results(what_if, what_ifs, workers, as_json=as_json)
    else:
        if not workload or not cluster or not chosen:
            raise click.UsageError("say what to simulate: --workload, --cluster and --policy; or --from a recording")
        _refuse_unknown(chosen, rules, profiles)
        _make_folder(out)
        runs = [
            SimulationSpec(
                workload=workload,
                cluster=cluster,
                policy=name,
                rules=rules,
                seed=seed,
                profiles=profiles,
                pinned=pinned,
                parameters=PoolParameters(queueing=QueueParameters(blocking=blocking)),
            )
            for name in chosen
            for seed in seed_list
        ]
        results = _results(simulate_one, runs, workers, as_json=as_json)
    from steepest_lab.commands.simulate_summary import show_results, write

    if not as_json:
        show_results(results)
    if out is not None:
        write(out, results)


def _refuse_unknown(policies: Sequence[str], rules: str, profiles: Path | None) -> None:
    """Nothing, if there are the rules and all of the policies under them."""
    from steepest_lab.sim.policies import refuse_unfit
    from steepest_lab.sim.rules import RULES

    if rules not in RULES:
        raise click.UsageError(f"there are no rules {rules!r}; name one of {', '.join(RULES)}")
    if profiles is not None and not RULES[rules].profiles:
        raise click.UsageError(f"the rules {rules} read no measured tables; leave --profiles out")
    for name in policies:
        refuse_unfit(name, rules)


def _make_folder(folder: Path | None) -> None:
    if folder is not None:
        from steepest_lab.commands.simulate_summary import make_folder

        make_folder(folder)


def _what_ifs(recording: Path, position: int | None, policies: Sequence[str], seeds: Sequence[int]) -> list[WhatIf]:
    from steepest.cli.commands.replay import log_folder
    from steepest_lab.sim.policies import LIVE, pool_policy
    from steepest_lab.sim.whatif.play import AS_RECORDED
    from steepest_lab.sim.whatif.run import WhatIf

    for name in policies:
        if pool_policy(name, LIVE) is None:
            raise click.UsageError(f"a recording is played on by the live policies {', '.join(LIVE)}, not by {name!r}")
    return [
        WhatIf(recording=log_folder(recording), position=position, policy=name, seed=seed)
        for name in (AS_RECORDED, *policies)
        for seed in seeds
    ]


def _results(
    do: Callable[[R], SimulationResult], runs: Sequence[R], workers: int | None, *, as_json: bool
) -> list[SimulationResult]:
    """The results; as JSON, each is compared with the first policy's under the same seed."""
    results: list[SimulationResult] = []
    for result in _simulated(do, runs, workers):
        results.append(result)
        if as_json:
            from steepest_lab.commands.simulate_summary import compared_with

            give(result.summary(compared_with(results, result)))
    return results


def _seeds(text: str) -> list[int]:
    """Each seed once, in the order in which they are named."""
    seeds: dict[int, None] = {}
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdecimal() and len(end) <= MOST_DIGITS for end in ends):
            shown = part if len(part) <= SHOWN else f"{part[:SHOWN]}…"
            raise click.UsageError(f"{shown!r} is no seed; write 3, 1,2,3 or 0-9")
        low, high = map(int, ends)
        if high < low:
            raise click.UsageError(f"--seed {part}: the range ends before it begins")
        if high - low >= MOST_SEEDS:
            raise click.UsageError(f"--seed {part}: are more than {MOST_SEEDS:,} seeds")
        seeds.update(dict.fromkeys(range(low, high + 1)))
    return list(seeds)


def _simulated(
    do: Callable[[R], SimulationResult], runs: Sequence[R], workers: int | None
) -> Iterator[SimulationResult]:
    """The results as they come, with a bar on a terminal."""
    from steepest_lab.sim.run import side_by_side

    if not sys.stderr.isatty():
        yield from side_by_side(do, runs, workers)
        return
    from rich.progress import track

    out = console(stderr=True)
    yield from track(side_by_side(do, runs, workers), "simulating", total=len(runs), console=out, transient=True)

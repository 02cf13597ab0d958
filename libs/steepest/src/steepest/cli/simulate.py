"""``steepest simulate``: what a workload would come to under some policies, in virtual time.

Owns the command's options and its outputs. Must never know a policy.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from steepest.sim.result import SimulationResult, Summary
    from steepest.sim.whatif.run import WhatIf

R = TypeVar("R")

FROM_HELP = "A recording to play on, instead of a workload: what would come under other policies?"

EPILOG = """\b
Examples:
  steepest simulate --workload thesis:mixed-20 --cluster 4x8cpu --policy spread,specon
  steepest simulate --workload trace.csv --cluster 8x8gpu --policy fifo,srtf,tiresias --json
  steepest simulate --workload trace3.csv --cluster 8x8gpu --policy tiresias --rules muri
  steepest simulate --workload thesis:mixed-50 --cluster 8x8cpu --policy specon --seed 0-9 --out results
  steepest simulate --from .steepest --at 900 --policy spread,specon+flowcon --seed 0-9
  steepest simulate --policies

Workloads: traces of Muri, Tiresias, Pollux, Gavel, Philly and openb, JSON Lines of one's own, or thesis:NAME
(docs/workloads.md). The same seed gives the same result, wherever and beside whatever it runs.
"""


def _list_policies(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's own form
    if not value:
        return
    from steepest.cli.tables import show
    from steepest.sim.policies import about, names

    show(("policy", "what it does"), [(name, about(name)) for name in names()])
    ctx.exit()


@click.command(epilog=EPILOG)
@click.option("--workload", metavar="FILE|NAME", help="The jobs.")
@click.option("--cluster", metavar="SPEC", help="The nodes: 8x8gpu, 4x16cpu+2x8cpu, or a TOML file.")
@click.option("--from", "recording", type=click.Path(exists=True, file_okay=False, path_type=Path), help=FROM_HELP)
@click.option("--at", "position", type=int, help="With --from: what stands before this position is the past.")
@click.option("--policy", "policies", metavar="NAME[,NAME…]", help="What to compare; see --policies.")
@click.option("--seed", "seeds", default="0", metavar="N[,N…]", show_default=True, help="Seeds; also ranges: 0-9.")
@click.option("--rules", default="default", show_default=True, help="Costs and placement: default, muri or pollux.")
@click.option("--profiles", type=click.Path(path_type=Path), help="Folder of measured tables, for --rules pollux.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Write jobs.csv and summary.json there.")
@click.option("--jobs", "workers", type=click.IntRange(min=1), help="Processes; default: one a core.")
@click.option("--json/--no-json", "as_json", default=False, help="One JSON object a run and nothing else.")
@click.option(
    "--policies",
    "listed",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_policies,
    help="List them and exit.",
)
def simulate(
    *,
    workload: str | None,
    cluster: str | None,
    recording: Path | None,
    position: int | None,
    policies: str | None,
    seeds: str,
    rules: str,
    profiles: Path | None,
    out: Path | None,
    workers: int | None,
    as_json: bool,
) -> None:
    """Run a workload on simulated nodes under one policy or several, and compare what comes out.

    Times are in seconds. SpeCon and FlowCon run as they do live: the same deciders, view and migration steps.
    """
    from steepest.sim.run import Run
    from steepest.sim.run import simulate as simulate_one

    chosen = [name.strip() for name in (policies or "").split(",") if name.strip()]
    seed_list = _seeds(seeds)
    if recording is not None:
        from steepest.sim.whatif.run import what_if

        if workload or cluster or rules != "default" or profiles:
            raise click.UsageError("a recording brings its own jobs, nodes and rules; leave those options out")
        results = _results(what_if, _what_ifs(recording, position, chosen, seed_list), workers, as_json=as_json)
    else:
        if not workload or not cluster or not chosen:
            raise click.UsageError("say what to simulate: --workload, --cluster and --policy; or --from a recording")
        if position is not None:
            raise click.UsageError("--at is a position of a recording; name the recording with --from")
        runs = [
            Run(workload=workload, cluster=cluster, policy=name, rules=rules, seed=seed, profiles=profiles)
            for name in _known(chosen, rules)
            for seed in seed_list
        ]
        results = _results(simulate_one, runs, workers, as_json=as_json)
    if out is not None:
        _write(out, results)
    if not as_json:
        _show(results)


def _known(policies: Sequence[str], rules: str) -> Sequence[str]:
    """The policies, if there are all of them and the rules."""
    from steepest.sim.policies import refuse_unknown
    from steepest.sim.rules import RULES

    if rules not in RULES:
        raise click.UsageError(f"there are no rules {rules!r}; name one of {', '.join(RULES)}")
    for name in policies:
        refuse_unknown(name)
    return policies


def _what_ifs(recording: Path, position: int | None, policies: Sequence[str], seeds: Sequence[int]) -> list[WhatIf]:
    from steepest.cli.replay import log_folder
    from steepest.sim.policies import LIVE
    from steepest.sim.whatif.play import AS_RECORDED
    from steepest.sim.whatif.run import WhatIf

    for name in policies:
        if name not in LIVE:
            raise click.UsageError(f"a recording is played on by the live policies {', '.join(LIVE)}, not by {name!r}")
    return [
        WhatIf(recording=log_folder(recording), position=position, policy=name, seed=seed)
        for name in (AS_RECORDED, *policies)
        for seed in seeds
    ]


def _results(
    do: Callable[[R], SimulationResult], runs: Sequence[R], workers: int | None, *, as_json: bool
) -> list[SimulationResult]:
    results = []
    for result in _simulated(do, runs, workers):
        results.append(result)
        if as_json:
            click.echo(_as_json(result.summary()))
    return results


def _seeds(text: str) -> list[int]:
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise click.UsageError(f"{part!r} is no seed; write 3, 1,2,3 or 0-9")
        if int(last or first) - int(first) not in range(100_000):
            raise click.UsageError(f"{part!r} is no range of seeds")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def _simulated(
    do: Callable[[R], SimulationResult], runs: Sequence[R], workers: int | None
) -> Iterator[SimulationResult]:
    """The results as they come, with a bar on a terminal."""
    from steepest.sim.run import side_by_side

    if not sys.stderr.isatty():
        yield from side_by_side(do, runs, workers)
        return
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(side_by_side(do, runs, workers), "simulating", total=len(runs), console=console, transient=True)


def _as_json(summary: Summary) -> bytes:
    import msgspec

    return msgspec.json.encode(summary)


def _write(folder: Path, results: Sequence[SimulationResult]) -> None:
    """``summary.json``, a list of the runs' figures, and ``jobs.csv``, a line a job and run."""
    import csv

    import msgspec

    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"seed": result.seed, **msgspec.structs.asdict(result.summary())} for result in results]
    (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
    with (folder / "jobs.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        fields = ("name", "submit_s", "start_s", "end_s", "outcome", "migrations", "preemptions")
        writer.writerow(("policy", "seed", *fields))
        for result in results:
            for job in result.jobs:
                writer.writerow((result.policy, result.seed, *(getattr(job, field) for field in fields)))


def _show(results: Sequence[SimulationResult]) -> None:
    from steepest.cli.tables import show

    several = len({result.seed for result in results}) > 1
    columns = ["policy", *(["#seed"] if several else []), "#finished", "#mean JCT", "#median", "#p90", "#p99"]
    columns += ["#mean wait", "#makespan", "#used", "#moved", "#preempted"]
    rows = []
    for result in results:
        figures = result.summary()
        times = (figures.mean_jct, figures.median_jct, figures.p90_jct, figures.p99_jct)
        rows.append(
            [
                figures.policy,
                *([str(result.seed)] if several else []),
                f"{figures.finished}/{figures.jobs}",
                *(f"{seconds:,.1f}" for seconds in (*times, figures.mean_wait, figures.makespan)),
                f"{figures.utilisation:.1%}",
                str(figures.migrations),
                str(figures.preemptions),
            ]
        )
    show(columns, rows)
    for result in results:
        rejected = sum(job.outcome == "rejected" for job in result.jobs)
        if rejected:
            click.echo(f"{result.policy}: {rejected} jobs ask for more than any node has", err=True)

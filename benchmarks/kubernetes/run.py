"""Scale on a control plane without kubelets: Steepest's Kubernetes adapter beside other schedulers, in turn.

The others are the default scheduler, Kueue (``make kueue``) and the coscheduling plugin (``make coscheduling``); one that is
not built is left out. Each turn has a new control plane with as many bare nodes. Its fake kubelets say that a bound pod
runs, and the pods go on running until all are bound, so that what is remembered grows to the whole number. *Placements a
second* is the number of jobs over the time from the first submission to the last binding that the fake kubelets have seen.
*Decision to running* is from ``PlacementPlanned`` in the log to the API server's answer that the pod runs. A contender's own
requests are counted in the API server's audit log, from the first submission to the last binding.

Run: ``make bench-kubernetes NODES=1000 JOBS=10000 PAIRS=1``. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
from pathlib import Path

from benchmarks.kubernetes import control_plane
from benchmarks.kubernetes.contenders import Contender
from benchmarks.kubernetes.coscheduling import Coscheduling
from benchmarks.kubernetes.default_scheduler import DefaultScheduler
from benchmarks.kubernetes.figures import lines, result, table
from benchmarks.kubernetes.kueue import Kueue
from benchmarks.kubernetes.steepest_services import SteepestServices
from benchmarks.kubernetes.taking import take_turn
from benchmarks.kubernetes.turn import Turn

CONTENDERS: tuple[type[Contender], ...] = (DefaultScheduler, SteepestServices, Kueue, Coscheduling)
"""In the order of their turns."""


def chosen(programs: Path, only: list[str]) -> list[type[Contender]]:
    """Those that are asked for and can run; the others are said with the reason."""
    found: list[type[Contender]] = []
    for kind in CONTENDERS:
        if only and kind.name not in only:
            continue
        if why := kind.missing(programs):
            print(f"{kind.name} is left out: {why}", flush=True)
        else:
            found.append(kind)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=1, help="So many turns of each, in turn.")
    parser.add_argument("--patience", type=float, default=3_600.0, help="The most seconds that a turn may take.")
    parser.add_argument("--programs", type=Path, default=Path(".kubernetes/bin"))
    parser.add_argument("--keep", type=Path, help="Keep every turn's logs in this folder.")
    names = [kind.name for kind in CONTENDERS]
    parser.add_argument("--only", choices=names, action="append", default=[], help="Measure this one; may be repeated.")
    given = parser.parse_args()
    if why := control_plane.missing(given.programs):
        print(f"skipped: {why}; get it with: make kubernetes-programs")
        return
    kinds = chosen(given.programs, given.only)
    turns: list[Turn] = []
    with tempfile.TemporaryDirectory(prefix="steepest-scale-") as name:
        top = given.keep or Path(name)
        for number in range(given.pairs):
            for kind in kinds:
                folder = top / f"{kind.name}-{number}"
                folder.mkdir(parents=True)
                measure = take_turn(
                    kind,
                    given.programs,
                    folder,
                    nodes=given.nodes,
                    jobs=given.jobs,
                    patience_s=given.patience,
                )
                turn = asyncio.run(measure)
                print("\n".join(lines(turn, given.jobs)), flush=True)
                turns.append(turn)
    print(f"{os.cpu_count()} cores")
    print("\n".join(table(turns)))
    print(json.dumps(result(turns, given.nodes, given.jobs)))


if __name__ == "__main__":
    main()

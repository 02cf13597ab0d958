"""The same sweep under Steepest and under Ray Tune's ``ASHAScheduler``, in pairs of real runs on two cores of a machine.

A trial is a NumPy training with random settings (``benchmarks/frame/swept_training.py``). Both have the same ones in one
order, and run two at a time. Both compare them first after a 27th of the steps, and a third goes on. Every second pair
begins with Ray. *Steps* are those of all trials, *time* is from the first submission to the end of the last trial, *loss* is
that of the best trial that made all its steps. Changes are those of Steepest in %, with the 95 % interval of their mean over
the pairs. ``--ray`` names a Python with ``ray[tune]``, NumPy and scikit-learn; without one, Steepest runs alone. Other work
on the machine changes the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.frame.bench import REPOSITORY, changed, doing, figure, kept, options
from benchmarks.frame.swept_training import RANGES, SETTINGS
from tests.harness.system.running_system import STEEPEST, RunningSystem

from steepest.cli.jobs.sweep_options import choices_of

CORES, FACTOR = 2, 3
TRAINING = "benchmarks.frame.swept_training"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
PARAMS = [f"{name}={RANGES[name]}" for name in SETTINGS]
COMPARED = {"took_s": "time", "steps": "steps", "loss": "loss"}
PATIENCE_S = 3_600.0


def main() -> None:
    """Run the pairs that are not known yet."""

    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--ray", default=sys.executable, help="a Python that has Ray Tune")
        parser.add_argument("--state", type=Path, default=Path("out/real-sweeps"), help="for the runs' folders")
        parser.add_argument("--out", type=Path, help="JSON lines of what was measured")

    asked = options(__doc__, more, pairs=(1, 1, 5), trials=(3, 9, 27), steps=(27, 81, 270))
    runs = {"steepest": _steepest, "ray": _ray}
    if subprocess.run([asked.ray, "-c", "import ray.tune"], capture_output=True, check=False).returncode:
        doing(f"{asked.ray} has no Ray Tune, so Steepest runs alone: name a Python that has it with --ray")
        del runs["ray"]
    of = {"trials": asked.trials, "steps": asked.steps, "of": list(runs)}
    pairs = [
        kept(asked.out, {**of, "pair": number}, partial(_pair, asked, runs, number)) for number in range(asked.pairs)
    ]
    for who in runs:
        figure(who, **{name: [round(pair[who][name], 3) for pair in pairs] for name in (*COMPARED, "finished")})
    if len(runs) > 1:
        figure(
            f"{asked.trials} trials of {asked.steps} steps",
            **{
                name: changed([100 * (pair["steepest"][key] / pair["ray"][key] - 1) for pair in pairs])
                for key, name in COMPARED.items()
            },
        )


def _pair(asked: Any, runs: Mapping[str, Callable[..., Any]], number: int) -> Mapping[str, Any]:
    found = {}
    for who in list(runs)[:: 1 if number % 2 == 0 else -1]:
        doing(f"pair {number}: {asked.trials} trials under {who}")
        shutil.rmtree(asked.state / who, ignore_errors=True)
        found[who] = runs[who](asked, number, asked.state / who)
    return found


def _command(steps: int) -> tuple[str, ...]:
    return ("-m", TRAINING, str(steps), *(f"{{{name}}}" for name in SETTINGS))


def _first_rung(steps: int) -> int:
    return max(1, steps // FACTOR**3)


def _steepest(asked: Any, seed: int, folder: Path) -> Mapping[str, Any]:
    env = {"PYTHONPATH": str(REPOSITORY), **ONE_THREAD}
    system = RunningSystem(folder, "--policy", "spread", "--node", f"n1={CORES}", env=env)
    system.start()
    try:
        began = time.monotonic()
        drawn = [word for param in PARAMS for word in ("--param", param)]
        rungs = f"{_first_rung(asked.steps)}x{FACTOR}"
        sweep = ("--name", "s", "--array", str(asked.trials), "--seed", str(seed), "--rungs", rungs)
        job = ("--cpu", "1", *(word for name, value in env.items() for word in ("--env", f"{name}={value}")))
        call = (
            *STEEPEST,
            "submit",
            "--state",
            str(folder),
            "--wait",
            *sweep,
            *job,
            *drawn,
            "--",
            sys.executable,
            *_command(asked.steps),
        )
        subprocess.run(call, stdout=subprocess.DEVNULL, check=True, timeout=PATIENCE_S)
        took_s, rows = time.monotonic() - began, system.ask("trials", "s")
    finally:
        system.end()
    finished = [row["loss"] for row in rows if row["outcome"] == "finished"]
    return {
        "took_s": took_s,
        "steps": sum(row["step"] or 0 for row in rows),
        "finished": len(finished),
        "loss": min(finished),
    }


def _ray(asked: Any, seed: int, folder: Path) -> Mapping[str, Any]:
    given = {
        "cores": CORES,
        "steps": asked.steps,
        "first": _first_rung(asked.steps),
        "factor": FACTOR,
        "folder": str(folder.absolute()),
        "trials": [one.params for one in choices_of(PARAMS, _command(asked.steps), asked.trials, seed)],
    }
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "libs" / "steepest-lab" / "src")])
    done = subprocess.run(
        [asked.ray, "-m", "benchmarks.frame.ray_sweep"],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
    )
    if done.returncode:
        raise SystemExit(f"Ray's side failed:\n{done.stderr[-2_000:]}")
    found: Mapping[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()

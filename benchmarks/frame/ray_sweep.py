"""The same sweep under Ray Tune's ``ASHAScheduler``: ``python ray_sweep.py``, with what is asked for on standard input."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import ray
from benchmarks.frame.swept_training import SETTINGS, Perceptron
from ray import tune
from ray.tune.schedulers import ASHAScheduler


def train(config: dict[str, Any]) -> None:
    """Report each step's loss; Ray stops it."""
    model = Perceptron(*(float(config["trial"][name]) for name in SETTINGS))
    for _ in range(config["steps"]):
        tune.report({"loss": model.train()})


def main() -> None:
    """Run the sweep, and print what it took and found."""
    asked = json.load(sys.stdin)
    ray.init(num_cpus=asked["cores"], include_dashboard=False, logging_level="ERROR")
    began = time.monotonic()
    tuner = tune.Tuner(
        tune.with_resources(train, {"cpu": 1}),
        param_space={"trial": tune.grid_search(asked["trials"]), "steps": asked["steps"]},
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            scheduler=ASHAScheduler(
                max_t=asked["steps"], grace_period=asked["first"], reduction_factor=asked["factor"]
            ),
        ),
        run_config=tune.RunConfig(verbose=0, storage_path=asked["folder"]),
    )
    results = [result.metrics or {} for result in tuner.fit()]
    finished = [one["loss"] for one in results if one.get("training_iteration") == asked["steps"]]
    print(
        json.dumps(
            {
                "took_s": time.monotonic() - began,
                "steps": sum(one.get("training_iteration", 0) for one in results),
                "finished": len(finished),
                "loss": min(finished),
            }
        )
    )


if __name__ == "__main__":
    main()

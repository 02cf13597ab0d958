"""What the weight of learning, λ, trades: the mean completion time against T90, under the policy ``steepest``.

λ = 0 is shortest remaining time first within the fair ends; λ = 1 counts learning alone. Pools and figures are those of
``benchmarks.policies``, where jobs may also move.

``--out FILE`` appends a JSON line a weight and seed, and skips what the file holds already;
``python tools/learning_weight_picture.py FILE`` draws the curve.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import msgspec
from benchmarks.frame.bench import changed, each, figure, kept, options
from benchmarks.policies import logic, measure, parameters_of


def main() -> None:
    """Measure what is not known yet, and print a line a weight."""

    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--out", type=Path, help="JSON lines of what was measured")

    asked = options(
        __doc__,
        more,
        seeds=(1, 2, 10),
        first_seed=(0, 0, 0),
        case=(("mixed-20 4x8",), ("mixed-30 4x8",), ("mixed-50 4x8", "mixed-30 4x8")),
        weight=((0.45,), (0.0, 0.45), (0.0, 0.15, 0.3, 0.45, 0.6, 0.8)),
    )
    for name in asked.case:
        for weight in asked.weight:
            parameters = parameters_of("steepest", [f"learning_weight={weight}"])
            of = {"case": name, "parameters": msgspec.to_builtins(parameters), "logic": logic()}
            rows = [
                kept(
                    asked.out,
                    {**of, "seed": seed, "weight": weight},
                    partial(measure, name, "steepest", parameters, seed),
                )
                for seed in each(f"{name}, {weight:g}: seeds", range(asked.first_seed, asked.first_seed + asked.seeds))
            ]
            figure(
                f"{name}, λ = {weight:g}",
                mean=changed([row["mean_jct"] for row in rows]),
                T90=changed([row["mean_t90"] for row in rows]),
                late=changed([row["late_share"] for row in rows]),
            )


if __name__ == "__main__":
    main()

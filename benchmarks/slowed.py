"""How soon a job is found whose steps take two thirds longer, and how often the cause is named, on simulated nodes.

Later: it becomes slower than before, and the other jobs of its node tell the cause. From its start: it always was slower
than the jobs of its model on other nodes.
"""

from __future__ import annotations

import random
from itertools import product

from benchmarks.frame.bench import doing, figure, options
from tests.harness.scenarios.slow_nodes import world

WITHIN, CAUSE_WITHIN = 10, 25
"""Steps within which it is found, and its cause."""


def main() -> None:
    """Measure what the command line asks for."""
    asked = options(__doc__, worlds=(1, 10, 40), noise=((0.1,), (0.03, 0.1), (0.03, 0.1)))
    for by_model, noise, jobs, fault in product((False, True), asked.noise, (1, 2, 4), ("node", "job", "model")):
        if fault == "model" and not by_model:
            continue
        begins = "from its start" if by_model and fault != "model" else "later"
        name = f"{begins}, noise {noise}, {jobs} jobs a node, slower: {fault}"
        doing(name)
        rng = random.Random(f"bench {name}")  # noqa: S311 - a simulation
        seen = [world(rng, jobs, noise, fault, by_model=by_model) for _ in range(asked.worlds)]
        causes = [one.cause for one in seen if one.cause is not None]
        right = [after for cause, after in causes if cause == fault and after <= CAUSE_WITHIN]
        figure(
            name,
            worlds=asked.worlds,
            found=sum(one.found is not None and one.found <= WITHIN for one in seen),
            right=len(right),
            wrong=sum(cause not in {fault, "unclear"} for cause, _ in causes),
            unclear=sum(cause == "unclear" for cause, _ in causes),
            false_of_1000_steps=round(1_000 * sum(one.wrong for one in seen) / sum(one.steps for one in seen), 2),
        )


if __name__ == "__main__":
    main()

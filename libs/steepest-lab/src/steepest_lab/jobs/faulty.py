"""Linear regression with a fault: it hangs, it diverges, or it stays when its work is done. It does so once.

It hangs in a wait without end, as a training does for a message that never comes. A file next to its checkpoints says that
it has had its fault.
"""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path

import steepest_sdk
from steepest_lab.jobs import harness
from steepest_lab.jobs.linear import Linear

FAULTS = ("hang", "diverge", "idle")
AFTER = 0.5
"""Share of the steps after which it hangs or diverges."""

BEFORE_S = 10.0
"""For how long it trains at least before it hangs: a job of a few reports has no rhythm by which a silence is long."""

_WAIT_S = 0.5
WAITS = 3_600
"""Of half a second, for which it stays: half an hour, so that a busy machine finds it as well."""


def main() -> None:
    """Trains."""
    given, fault = harness.fault_options("faulty", FAULTS, steps=400, batches=12)
    model = Linear(given.seed)
    mode = "on-stop" if fault == "diverge" else "on-request"
    run = steepest_sdk.start(save=harness.save(model), load=harness.load(model), mode=mode)  # type: ignore[arg-type]
    run.announce(steps=given.steps)
    had_it = Path(os.environ.get("STEEPEST_CHECKPOINTS", ""), ".had-its-fault")
    faulty_from = math.inf if had_it.exists() or fault == "idle" else AFTER * given.steps
    pause_s = BEFORE_S / (AFTER * given.steps) if fault == "hang" and not had_it.exists() else 0.0
    for step in range(run.step + 1, given.steps + 1):
        threading.Event().wait(pause_s)
        loss = harness.train(model, given, step)
        if step > faulty_from:
            had_it.touch()
            if fault == "hang":
                threading.Event().wait()
        run.report(step, loss=math.nan if step > faulty_from else loss)
    for _ in range(WAITS if fault == "idle" else 0):
        run.safe_point()
        threading.Event().wait(_WAIT_S)


if __name__ == "__main__":
    main()

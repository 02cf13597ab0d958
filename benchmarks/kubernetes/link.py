"""What moves over a link take, beside what their plans said beforehand: real jobs on the lab's two real nodes.

The second node reaches the volume over a link of ``--mbit`` Mbit/s (:mod:`tools.kubernetes_lab.link`), and as the
control over the same link at no limited rate. In each direction a new system without experience moves the calibration's
jobs, and then those that count, one after the other, with checkpoints of sizes that were not moved before. The plan of a
move has its prediction.

Run: ``make bench-link MBIT=100``. It needs root. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.kubernetes.linked_moves import TO_FAR, TO_NEAR, LinkedMove, MovingJobs, linked_system

from tools.kubernetes_lab import link
from tools.kubernetes_lab.lab import KubernetesLab, missing, running_lab
from tools.kubernetes_lab.layout import NAMESPACE, default_folder

CALIBRATION_MIB = (20, 60, 20, 60, 20)
COUNTED_MIB = (30, 40, 50, 80, 100, 90, 70)
DIRECTIONS = {"to the far node": TO_FAR, "from the far node": TO_NEAR}
RIGHTS = Path(__file__).parents[2] / "deploy" / "kubernetes" / "rights.yaml"
WITHIN = 0.2


@contextmanager
def linked_lab() -> Iterator[KubernetesLab]:
    """A lab whose second node is behind a link; one that ran before is as it was afterwards, but for the link."""
    with running_lab(default_folder()) as lab:
        lab.kubectl("apply", "-f", str(RIGHTS))
        lab.join_by_link()
        try:
            yield lab
        finally:
            lab.kubectl("-n", NAMESPACE, "delete", "jobs", "-l", "steepest.dev/managed=true")
            lab.part_from_link()


def measured(lab: KubernetesLab, nodes: tuple[str, str]) -> tuple[list[LinkedMove], list[LinkedMove]]:
    """The moves of the calibration, and those that count, in one direction, at the link's present rate."""
    state = lab.folder.volume / f"link-{secrets.token_hex(4)}"
    with linked_system(lab, lab.kubeconfig_of("steepest"), state, nodes) as system:
        jobs = MovingJobs(system, lab)
        return jobs.move(*CALIBRATION_MIB), jobs.move(*COUNTED_MIB)


def in_words(one: LinkedMove) -> str:
    """A move."""
    error = "" if one.error is None else f", {one.error:+.1%}"
    predicted = "nothing predicted" if one.predicted_ms is None else f"predicted {one.predicted_ms} ms"
    to_far, from_far = one.crossed_mib
    return (
        f"{one.mib} MiB: {predicted}, took {one.took_ms} ms{error}; crossed {to_far:.1f} MiB to, {from_far:.1f} from it"
    )


def summary(moves: Sequence[LinkedMove]) -> dict[str, Any]:
    """How far predictions were from what was measured."""
    errors = [abs(one.error) for one in moves if one.error is not None]
    return {
        "moves": len(moves),
        "predicted": len(errors),
        "error_p50": round(statistics.median(errors), 3) if errors else None,
        "error_max": round(max(errors), 3) if errors else None,
        "within_20_percent": sum(error <= WITHIN for error in errors),
        "took_ms_per_mib": round(sum(one.took_ms for one in moves) / sum(one.mib for one in moves)),
        "crossed_per_mib": round(sum(max(one.crossed_mib) for one in moves) / sum(one.mib for one in moves), 2),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mbit", type=int, default=100)
    given = parser.parse_args()
    if why := missing(default_folder()) or link.missing():
        print(f"skipped: {why}; get it with: make engine images kubernetes-programs links")
        return
    found: dict[str, Any] = {"mbit": given.mbit}
    with linked_lab() as lab:
        for name, mbit in ((f"{given.mbit} Mbit/s", given.mbit), ("no limit", None)):
            lab.link.shape(mbit)
            for direction, nodes in DIRECTIONS.items():
                calibration, counted = measured(lab, nodes)
                print(f"{name}, {direction}; load {os.getloadavg()[0]:.1f}")
                for one in (*calibration, *counted):
                    print(f"  {'' if one in counted else 'calibration: '}{in_words(one)}", flush=True)
                found[f"{name}, {direction}"] = summary(counted)
    print(json.dumps(found))


if __name__ == "__main__":
    main()

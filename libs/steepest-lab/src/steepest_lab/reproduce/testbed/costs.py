"""CPU time of a training's start and of each step, measured before an experiment on one of its nodes.

Lengths are in CPU time, so that the ratios of lengths and arrivals are those of the experiment on any machine.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from steepest.errors import ClusterError
from steepest_lab.reproduce.testbed.jobs import KINDS, ONE_BATCH, PYTHON, Cost
from steepest_lab.reproduce.testbed.nodes import Testbed

if TYPE_CHECKING:
    import docker

_FEW_STEPS, _MORE_STEPS = 20, 100
_PROBED_S = 2.0
"""CPU time over which a step's cost is measured, in seconds: the first steps are cheaper than later ones."""

_PROBE = (
    "import runpy, sys, time; sys.argv[1:1] = ['probe']; sys.argv = sys.argv[1:]; "
    "runpy.run_module('steepest_lab.jobs.{kind}', run_name='__main__'); print('\\nprobe', time.process_time())"
)
_TIMEOUT_S = 120

Probe = Callable[[str, int], float]
"""The CPU time in seconds of a training, by its kind and number of steps, alone on its node."""


def costs(nodes: Testbed, models: Iterable[str], step: Sequence[str] = ONE_BATCH) -> dict[str, Cost]:
    """Measure the costs of the trainings that represent some models.

    Args:
        nodes: Where they are to run.
        models: Of the experiment.
        step: Options of the trainings that say how large a step is.

    Raises:
        ClusterError: A training did not run.
    """
    with contextlib.ExitStack() as stack:
        probe: Probe = partial(_probe_here, step)
        if nodes.on_engines:
            import docker  # noqa: PLC0415 - the client is an extra

            client = stack.enter_context(
                contextlib.closing(docker.APIClient(base_url=nodes.nodes[0].engine, version="auto", timeout=60))
            )
            probe = _on(client, step)
        found: dict[str, Cost] = {}
        by_kind: dict[str, Cost] = {}
        for model in models:
            kind = KINDS[model]
            found[model] = by_kind[kind] = by_kind.get(kind) or _cost(probe, kind)
        return found


def kept_costs(nodes: Testbed, models: Iterable[str], path: Path) -> Mapping[str, Cost]:
    """The costs in a file, which gets those that it lacks: runs that are made later are of the same lengths.

    Raises:
        ClusterError: A training did not run.
        OSError: The file cannot be written.
    """
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=dict[str, Cost])
    except (OSError, msgspec.DecodeError):
        kept = {}
    if lacking := [model for model in models if model not in kept]:
        kept |= costs(nodes, lacking)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.encode(kept))
    return kept


def _cost(probe: Probe, kind: str) -> Cost:
    few, more = (probe(kind, steps) for steps in (_FEW_STEPS, _MORE_STEPS))
    steps = _FEW_STEPS + round(_PROBED_S * (_MORE_STEPS - _FEW_STEPS) / max(more - few, 0.01))
    step_s = (probe(kind, steps) - few) / (steps - _FEW_STEPS)
    return Cost(max(0.0, few - _FEW_STEPS * step_s), step_s)


def _probe_here(step: Sequence[str], kind: str, steps: int) -> float:
    command = [sys.executable, "-c", _PROBE.format(kind=kind), "--steps", str(steps), *step]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise ClusterError(f"the training {kind} took more than {_TIMEOUT_S} s", code="no-training") from None
    return _cpu_s(kind, done.stdout, done.stderr)


def _on(client: docker.APIClient, step: Sequence[str]) -> Probe:
    """Probe in a container of an engine."""
    from steepest_lab.docker_engines.images import DEMO  # noqa: PLC0415 - the client is an extra

    def probe(kind: str, steps: int) -> float:
        command = [PYTHON, "-c", _PROBE.format(kind=kind), "--steps", str(steps), *step]
        host = client.create_host_config(network_mode="none")
        made = client.create_container(
            DEMO, command, host_config=host, environment={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        )["Id"]
        try:
            client.start(made)
            client.wait(made, timeout=_TIMEOUT_S)
            return _cpu_s(kind, client.logs(made).decode(errors="replace"))
        finally:
            client.remove_container(made, force=True)

    return probe


def _cpu_s(kind: str, output: str, errors: str = "") -> float:
    words = output.split()
    if words[-2:-1] != ["probe"]:
        raise ClusterError(f"the training {kind} did not run: {(output + errors)[-500:]}", code="no-training")
    return float(words[-1])

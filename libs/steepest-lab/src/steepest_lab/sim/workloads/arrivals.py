"""The arrivals of the SpeCon and FlowCon experiments, drawn from a seed; named like ``thesis:fixed-20``.

Windows and numbers are the thesis'; where no source prints them (FlowCon 2.0), they are a reconstruction and
:class:`Pattern` says so. Times are whole seconds, as the authors' generator draws them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import msgspec

from steepest.errors import InputError
from steepest.events.common import Resources
from steepest_lab.sim.losses.thesis import FLOWCON, MODELS, SPECON
from steepest_lab.sim.workload import SimJob, Workload

PREFIX = "thesis:"

RESERVED_CPU_M = 100
"""CPU that a job requests: little, so that CPU is shared by demand and any number of jobs fits on a node."""

_VAE = ("vae-pytorch",)


class Pattern(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs arrive.

    Attributes:
        about: A description.
        jobs: Number of jobs.
        models: Each job's model is drawn from these; if there are as many as jobs, each is used once, in this order.
        window_s: Arrivals are drawn uniformly from [0, window].
        at_s: Arrival times, if they are not drawn.
        cluster: The nodes that the experiment had, for ``--cluster``.
        reconstructed: The source does not state the window or the nodes.
    """

    about: str
    jobs: int
    models: Sequence[str]
    window_s: int = 0
    at_s: Sequence[int] = ()
    cluster: str
    reconstructed: bool = False


PATTERNS: Mapping[str, Pattern] = {
    "fixed-20": Pattern(
        about="SpeCon: 20 VAE, 50 s apart",
        jobs=20,
        models=_VAE,
        at_s=range(0, 1_000, 50),
        cluster="4x8cpu",
    ),
    "random-20": Pattern(
        about="SpeCon: 20 VAE at random in [0, 300] s", jobs=20, models=_VAE, window_s=300, cluster="4x8cpu"
    ),
    "mixed-20": Pattern(
        about="SpeCon: 20 mixed jobs at random in [0, 300] s",
        jobs=20,
        models=tuple(SPECON),
        window_s=300,
        cluster="4x8cpu",
    ),
    "mixed-30": Pattern(
        about="SpeCon: 30 mixed jobs at random in [0, 300] s",
        jobs=30,
        models=tuple(SPECON),
        window_s=300,
        cluster="4x8cpu",
    ),
    "mixed-50": Pattern(
        about="SpeCon: 50 mixed jobs at random in [0, 1,200] s",
        jobs=50,
        models=tuple(SPECON),
        window_s=1_200,
        cluster="8x8cpu",
    ),
    "flowcon-3": Pattern(
        about="FlowCon: VAE (PyTorch) at 0 s, MNIST (PyTorch) at 40 s, MNIST (TensorFlow) at 80 s",
        jobs=3,
        models=("vae-flowcon", "mnist-pytorch", "mnist-tensorflow"),
        at_s=(0, 40, 80),
        cluster="1x8cpu",
    ),
    "flowcon-5": Pattern(
        about="FlowCon: 5 jobs at random in [0, 200] s", jobs=5, models=tuple(FLOWCON), window_s=200, cluster="1x8cpu"
    ),
    "flowcon-10": Pattern(
        about="FlowCon: 10 jobs at random in [0, 200] s",
        jobs=10,
        models=tuple(FLOWCON),
        window_s=200,
        cluster="1x8cpu",
    ),
    "flowcon-15": Pattern(
        about="FlowCon: 15 jobs at random in [0, 200] s",
        jobs=15,
        models=tuple(FLOWCON),
        window_s=200,
        cluster="1x8cpu",
    ),
    "flowcon2-20": Pattern(
        about="FlowCon 2.0: 20 mixed jobs on 4 workers, 50 s apart",
        jobs=20,
        models=tuple(MODELS),
        at_s=range(0, 1_000, 50),
        cluster="4x8cpu",
        reconstructed=True,
    ),
    "flowcon2-60": Pattern(
        about="FlowCon 2.0: 60 jobs on 8 uneven workers, at random in [0, 1,200] s",
        jobs=60,
        models=tuple(MODELS),
        window_s=1_200,
        cluster="4x8cpu+4x4cpu",
        reconstructed=True,
    ),
}
"""By the name after ``thesis:``."""


def arrivals(name: str, seed: int) -> Workload:
    """The jobs of a pattern; the same seed gives the same jobs on every machine.

    Args:
        name: With or without the prefix ``thesis:``.
        seed: Seed for arrivals and models that are drawn.

    Raises:
        InputError: There is no pattern of that name.
    """
    pattern = PATTERNS.get(name.removeprefix(PREFIX))
    if pattern is None:
        raise InputError(
            f"workload {name[:100]!r}: there are no such arrivals",
            hint=f"Name one of {', '.join(PREFIX + known for known in PATTERNS)}, or a file.",
        )
    rng = random.Random(seed)  # noqa: S311 - no secret depends on it
    # Python guarantees the same sequence in every version only for random(), not for randint() or choice().
    times = pattern.at_s or sorted(int(rng.random() * (pattern.window_s + 1)) for _ in range(pattern.jobs))
    models = pattern.models
    if len(models) != pattern.jobs:
        models = [pattern.models[int(rng.random() * len(pattern.models))] for _ in times]
    planned = zip(times, models, strict=True)
    return Workload(
        source=f"{PREFIX}{name.removeprefix(PREFIX)}",
        format="arrivals",
        jobs=tuple(_job(number, at_s, model) for number, (at_s, model) in enumerate(planned, 1)),
    )


def _job(number: int, at_s: int, name: str) -> SimJob:
    model = MODELS[name]
    return SimJob(
        name=f"job-{number}",
        submit_s=float(at_s),
        requests=Resources(cpu_m=RESERVED_CPU_M, memory_mib=model.memory_mib),
        work_s=model.work_s,
        iterations=model.reports,
        model=name,
        family=model.family,
        memory_mib=model.memory_mib,
        demand_cpu_m=model.demand_cpu_m,
    )

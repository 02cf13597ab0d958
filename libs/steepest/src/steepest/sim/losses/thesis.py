"""The models that the SpeCon and FlowCon experiments train: a reconstruction, for nobody has published their curves.

Known are the models' names (SpeCon: VAE, GRU, bidirectional, plain and dynamic RNN, each in PyTorch and TensorFlow;
FlowCon: VAE, MNIST, GRU, LSTM-CFC, LSTM-CRF), that most of a run's reduction falls into its first fifth, and what runs
of many jobs came to. Lengths and demands were chosen so that sharing each node's CPU fairly comes to the published
absolute figures of the default scheduler, and of nothing else: SpeCon's and FlowCon's own figures were not looked at.
On several workers each job's first node is drawn uniformly (:mod:`steepest.sim.reproduce.placement` says why), and the
mean over such draws is compared:

* 20 VAE, 50 s apart, 4 workers: 275.2 s on average, makespan 1,260 s. One number, the length of that VAE, is chosen by it.
* mixed models, drawn at random: makespan 1,421 s (20 jobs, 4 workers); 799.5 s and 1,640 s (30, 4); 596.3 s and
  2,070 s (50, 8). Which models were drawn is unknown. Two numbers, the scale and the spread of the other lengths, are
  chosen so that the sum of squared distances in standard deviations over the draw is least; each is below 1.5.
* VAE at 0 s, MNIST-P at 40 s, MNIST-T at 80 s on one node: makespan 394.0 s, MNIST-T 84.7 s; 10 jobs 1,384.9 s,
  15 jobs 1,980.1 s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from steepest.sim.losses.curve import TwoPhase

ASSUMPTIONS: Sequence[str] = (
    "The thesis' models are reconstructed: it gives neither their run times nor their loss curves.",
    "Run times and CPU demands are chosen so that the default scheduler's published averages and makespans come out.",
    "Neither SpeCon's nor FlowCon's own published figures had any part in that choice.",
    "A job reserves 100 millicores, as a container without a request does, and can use 60 to 90 % of an 8-core node.",
    "Losses fall in two exponential phases, most of the way in the first fifth of a run, with noise of 1 to 2 %.",
    "A job uses its whole CPU demand from its start to its end, and its speed is proportional to the CPU that it gets.",
)
"""What a report about these jobs has to say."""


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """One model in one framework.

    Attributes:
        family: Name of its loss family.
        work_s: Its run alone on a worker with 8 cores.
        demand_cpu_m: CPU that it uses if it can.
        reports: Losses that it reports over its run, evenly; as many iterations are simulated.
        memory_mib: Its process's memory.
    """

    family: str
    work_s: float
    demand_cpu_m: int
    reports: int
    memory_mib: int
    curve: TwoPhase
    noise: float


class _Kind(msgspec.Struct, frozen=True):
    """What the frameworks have in common of a model.

    Attributes:
        losses: At the start, and the one that is never reached.
        fast: Share of the fall that belongs to the first phase.
        rates: Of both phases, per run.
    """

    memory_mib: int
    losses: tuple[float, float]
    fast: float
    noise: float
    rates: tuple[float, float] = (18.0, 1.5)


_VAE = _Kind(900, (545.0, 98.0), 0.93, 0.01)
_GRU = _Kind(700, (2.303, 0.06), 0.88, 0.02, (14.0, 2.0))
_BI = _Kind(800, (2.303, 0.09), 0.85, 0.02, (12.0, 2.5))
_RNN = _Kind(600, (2.303, 0.12), 0.9, 0.02)
_DYNAMIC = _Kind(500, (0.693, 0.05), 0.9, 0.015, (15.0, 2.0))
_MNIST = _Kind(700, (2.303, 0.03), 0.95, 0.02, (25.0, 1.5))
_LSTM = _Kind(700, (4.6, 0.9), 0.86, 0.015, (14.0, 2.0))


def _model(name: str, kind: _Kind, *, work_s: float, demand_cpu_m: int, every_s: float) -> Model:
    first, floor = kind.losses
    return Model(
        family=f"thesis/{name}",
        work_s=float(work_s),
        demand_cpu_m=demand_cpu_m,
        reports=round(work_s / every_s),
        memory_mib=kind.memory_mib,
        curve=TwoPhase(
            floor=floor,
            fast=(first - floor) * kind.fast,
            fast_rate=kind.rates[0],
            slow=(first - floor) * (1 - kind.fast),
            slow_rate=kind.rates[1],
        ),
        noise=kind.noise,
    )


SPECON: Mapping[str, Model] = {
    "vae-pytorch": _model("vae-pytorch", _VAE, work_s=162, demand_cpu_m=6_600, every_s=2),
    "vae-tensorflow": _model("vae-tensorflow", _VAE, work_s=136, demand_cpu_m=6_600, every_s=2),
    "gru-pytorch": _model("gru-pytorch", _GRU, work_s=346, demand_cpu_m=6_400, every_s=3),
    "gru-tensorflow": _model("gru-tensorflow", _GRU, work_s=232, demand_cpu_m=7_200, every_s=3),
    "bi-rnn-pytorch": _model("bi-rnn-pytorch", _BI, work_s=523, demand_cpu_m=6_400, every_s=4),
    "bi-rnn-tensorflow": _model("bi-rnn-tensorflow", _BI, work_s=384, demand_cpu_m=7_200, every_s=4),
    "rnn-pytorch": _model("rnn-pytorch", _RNN, work_s=148, demand_cpu_m=4_800, every_s=2),
    "rnn-tensorflow": _model("rnn-tensorflow", _RNN, work_s=91, demand_cpu_m=5_600, every_s=2),
    "dynamic-rnn-pytorch": _model("dynamic-rnn-pytorch", _DYNAMIC, work_s=124, demand_cpu_m=4_800, every_s=2),
    "dynamic-rnn-tensorflow": _model("dynamic-rnn-tensorflow", _DYNAMIC, work_s=62, demand_cpu_m=5_600, every_s=1),
}
"""Those of the thesis' SpeCon experiments, by model and framework."""

FLOWCON: Mapping[str, Model] = {
    "vae-pytorch": SPECON["vae-pytorch"],
    "mnist-pytorch": _model("mnist-pytorch", _MNIST, work_s=236, demand_cpu_m=7_200, every_s=2),
    "mnist-tensorflow": _model("mnist-tensorflow", _MNIST, work_s=31, demand_cpu_m=7_200, every_s=1),
    "gru-tensorflow": SPECON["gru-tensorflow"],
    "lstm-cfc": _model("lstm-cfc", _LSTM, work_s=105, demand_cpu_m=6_400, every_s=2),
    "lstm-crf": _model("lstm-crf", _LSTM, work_s=147, demand_cpu_m=6_400, every_s=2),
}
"""Those of FlowCon's."""

MODELS: Mapping[str, Model] = {**SPECON, **FLOWCON}
"""All of them."""

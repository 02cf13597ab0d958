"""The models that the SpeCon and FlowCon experiments train: a reconstruction, since no source has their curves.

Known are the models' names (SpeCon: VAE, GRU, bidirectional, plain and dynamic RNN, each in PyTorch and TensorFlow;
FlowCon: VAE, MNIST, GRU, LSTM-CFC, LSTM-CRF) and:

* which share of a run's reduction falls into its first fifth: 65 % of VAE's, 98 % of Bi-RNN's, 90 % of GRU's (thesis §3.1);
* that LSTM-CFC uses 19 % of the CPU (§6.1);
* when FlowCon's three jobs end (§6.1), from which their lengths and the node's contention follow
  (:mod:`steepest_lab.sim.losses.overlaps`).

The other lengths, demands and shares are chosen. Lengths count in proportion to each other only: every experiment that is
compared with published figures has a factor on them, found from its default run (``tools/fit_thesis_lengths.py``). SpeCon's
and FlowCon's own figures had no part in any of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from steepest_lab.sim.losses.curve import TwoPhase
from steepest_lab.sim.losses.overlaps import contention, lengths_s

ASSUMPTIONS: Sequence[str] = (
    "The thesis' models are reconstructed: it gives neither their run times nor their loss curves.",
    "Losses fall in two exponential phases, with noise of 1 to 2 %.",
    "In the first fifth of a run VAE falls by 65 % of its whole fall, Bi-RNN by 98 % and GRU by 90 %, as the thesis says.",
    "With the other models, of which it says nothing, that is 87 to 97 %.",
    "LSTM-CFC can use 19 % of a node, as the thesis says; what the others can use, 60 to 90 % of 8 cores, is chosen.",
    "A job reserves 100 millicores, as a container without a request does.",
    "SpeCon's and FlowCon's own published figures had no part in the choice of lengths, demands and contention.",
    "A job uses its whole CPU demand from its start to its end.",
)
"""Assumptions about these jobs that a report must state."""


class ThesisModel(msgspec.Struct, frozen=True, kw_only=True):
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
    """Properties of a model that its frameworks share.

    Attributes:
        losses: At the start, and the one that is never reached.
        first_fifth: Share of a run's reduction that falls into its first fifth.
        rates: Of both phases, per run.
    """

    memory_mib: int
    losses: tuple[float, float]
    first_fifth: float
    noise: float
    rates: tuple[float, float] = (18.0, 1.5)

    @property
    def fast(self) -> float:
        """Share of the fall that belongs to the first phase, so that ``first_fifth`` comes out."""
        (fast, slow), (fast_whole, slow_whole) = (
            [1 - math.exp(-rate * progress) for rate in self.rates] for progress in (0.2, 1.0)
        )
        share = self.first_fifth
        return (share * slow_whole - slow) / (fast - slow - share * (fast_whole - slow_whole))


_VAE = _Kind(900, (545.0, 98.0), 0.65, 0.01, (5.5, 1.5))
_GRU = _Kind(700, (2.303, 0.06), 0.90, 0.02, (14.0, 2.0))
_BI = _Kind(800, (2.303, 0.09), 0.98, 0.02, (25.0, 2.5))
_RNN = _Kind(600, (2.303, 0.12), 0.92, 0.02)
_DYNAMIC = _Kind(500, (0.693, 0.05), 0.90, 0.015, (15.0, 2.0))
_MNIST = _Kind(700, (2.303, 0.03), 0.97, 0.02, (25.0, 1.5))
_LSTM = _Kind(700, (4.6, 0.9), 0.87, 0.015, (14.0, 2.0))


def _model(name: str, kind: _Kind, *, work_s: float, demand_cpu_m: int, every_s: float) -> ThesisModel:
    first, floor = kind.losses
    fast = kind.fast
    return ThesisModel(
        family=f"thesis/{name}",
        work_s=float(work_s),
        demand_cpu_m=demand_cpu_m,
        reports=round(work_s / every_s),
        memory_mib=kind.memory_mib,
        curve=TwoPhase(
            floor=floor,
            fast=(first - floor) * fast,
            fast_rate=kind.rates[0],
            slow=(first - floor) * (1 - fast),
            slow_rate=kind.rates[1],
        ),
        noise=kind.noise,
    )


SPECON: Mapping[str, ThesisModel] = {
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
"""Models of the thesis' SpeCon experiments, by model and framework."""

THREE_DEMANDS_M = (6_600, 7_200, 7_200)
"""CPU that FlowCon's three jobs can use, in the order of their arrivals."""

CONTENTION = round(contention(THREE_DEMANDS_M).estimate, 2)
"""Of the nodes that the thesis' experiments ran on, as far as its three jobs show it."""

_VAE_S, _MNIST_P_S, _MNIST_T_S = lengths_s(THREE_DEMANDS_M, CONTENTION)

FLOWCON: Mapping[str, ThesisModel] = {
    "vae-flowcon": _model("vae-flowcon", _VAE, work_s=_VAE_S, demand_cpu_m=6_600, every_s=2),
    "mnist-pytorch": _model("mnist-pytorch", _MNIST, work_s=_MNIST_P_S, demand_cpu_m=7_200, every_s=2),
    "mnist-tensorflow": _model("mnist-tensorflow", _MNIST, work_s=_MNIST_T_S, demand_cpu_m=7_200, every_s=1),
    "gru-flowcon": _model("gru-flowcon", _GRU, work_s=232, demand_cpu_m=7_200, every_s=3),
    "lstm-cfc": _model("lstm-cfc", _LSTM, work_s=200, demand_cpu_m=1_520, every_s=2),
    "lstm-crf": _model("lstm-crf", _LSTM, work_s=147, demand_cpu_m=6_400, every_s=2),
}
"""Models of FlowCon's experiments, on another machine: VAE and GRU take longer or shorter there."""

MODELS: Mapping[str, ThesisModel] = {**SPECON, **FLOWCON}
"""All of them."""

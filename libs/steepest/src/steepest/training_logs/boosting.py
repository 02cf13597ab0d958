"""The output of gradient boosting after a round: metrics of each data set that the script evaluates.

It owns which of the metrics are losses, and which data set's loss the job is judged by. It must never know a line's format.
"""

from collections.abc import Iterable
from typing import NamedTuple

from steepest.training_logs.format import Context, Reading, at_step
from steepest.training_logs.records import Split
from steepest.training_logs.syntax.metric_names import plain

_LOSSES = frozenset(
    (
        "logloss", "mlogloss", "binary_logloss", "multi_logloss", "cross_entropy", "cross_entropy_lambda",
        "kullback_leibler", "rmse", "rmsle", "l1", "l2", "mae", "mse", "mape", "mphe", "huber", "fair", "poisson",
        "quantile", "gamma", "gamma_deviance", "tweedie", "poisson_nloglik", "gamma_nloglik", "cox_nloglik",
        "tweedie_nloglik", "aft_nloglik",
    )
)  # fmt: skip
"""Objectives of XGBoost and LightGBM, by the names in their parameter references. Classification errors step and stall."""


class Evaluated(NamedTuple):
    """One metric of one data set after a round."""

    data_set: str
    metric: str
    value: float


def round_of(step: int, evaluated: Iterable[Evaluated], context: Context) -> list[Reading]:
    """The readings of one line.

    The training set's first loss is reported as ``loss``, which a job is judged by. If a script evaluates only held-out
    sets, the first set's loss takes its place, because there is no other learning curve.
    """
    sets = list(evaluated)
    at = at_step(context, step)
    own = next((one.data_set for one in sets if "train" in one.data_set), sets[0].data_set if sets else "")
    found: dict[tuple[str, Split], Reading] = {}
    for one in sets:
        split: Split = "train" if one.data_set == own else "eval"
        metric = plain(one.metric.partition("@")[0])
        is_loss = metric in _LOSSES
        first = split == "train" and is_loss and ("loss", split) not in found
        name = "loss" if first and context.wanted is None else one.metric
        if plain(name) == context.wanted or (context.wanted is None and (is_loss or split == "eval")):
            found.setdefault((name, split), Reading(name, one.value, split, at))
    return list(found.values())

"""What gradient boosting prints after a round: metrics of each data set that the script evaluates.

Owns which of the metrics are losses, and which set's loss is the job's own. Must never know how a line is written.
"""

from collections.abc import Iterable
from typing import NamedTuple

from steepest.training_logs.format import Context, Found, at_step
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
"""What XGBoost and LightGBM minimise, by the names in their parameter references. Classification errors step and stall."""


class Evaluated(NamedTuple):
    """One metric of one data set after a round."""

    data_set: str
    metric: str
    value: float


def round_of(step: int, evaluated: Iterable[Evaluated], context: Context) -> list[Found]:
    """The readings of one line.

    The training set's first loss is ``loss``, the one that a job is judged by. A script that evaluates only held-out sets
    prints no other curve of what it learns, so the first set's loss stands in for it.
    """
    sets = list(evaluated)
    at = at_step(context, step)
    own = next((one.data_set for one in sets if "train" in one.data_set), sets[0].data_set if sets else "")
    found: dict[tuple[str, Split], Found] = {}
    for one in sets:
        split: Split = "train" if one.data_set == own else "eval"
        metric = plain(one.metric.partition("@")[0])
        is_loss = metric in _LOSSES
        first = split == "train" and is_loss and ("loss", split) not in found
        name = "loss" if first and context.wanted is None else one.metric
        if plain(name) == context.wanted or (context.wanted is None and (is_loss or split == "eval")):
            found.setdefault((name, split), Found(name, one.value, split, at))
    return list(found.values())

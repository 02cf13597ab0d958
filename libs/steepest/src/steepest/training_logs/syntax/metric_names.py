"""Classifies a printed name: a loss, another quality, the progress of the run, or nothing of interest.

It owns the words. It must never know a format: the same name means the same thing in every format.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from steepest.training_logs.records import TOTAL_LOSS_NAMES, Split

LONGEST_NAME = 200
"""Bytes of a name. No framework's is half as long, and a hostile one must not grow the state."""


class MetricName(NamedTuple):
    """A classified name; ``split`` is None if the name does not imply it."""

    metric: str
    is_loss: bool
    is_quality: bool
    split: Split | None
    place: str | None


_SETTINGS = frozenset(
    (
        "scale", "scaler", "scaling", "fn", "func", "function", "weight", "weights", "type", "name", "coef",
        "coeff", "coefficient", "factor", "reduction", "window", "alpha", "beta", "gamma", "ratio",
        "interval", "freq", "frequency", "mode", "threshold", "margin", "temperature", "file", "path",
        "dir", "key", "every", "steps", "size", "impl", "config", "cfg", "prefix", "improvement", "count",
        "counter", "time", "ms", "sec", "eps", "epsilon", "rate", "only",
    )
)  # fmt: skip
_EVAL_WORDS = frozenset(
    ("val", "valid", "validation", "test", "eval", "evaluation", "evaluate", "dev", "heldout", "holdout")
)
_TRAIN_WORDS = frozenset(("train", "training"))
_LOSS_WORDS = frozenset(("loss", "losses", "crossentropy", "smoothl1", "nll", "xent"))
_PART_LOSSES = frozenset(("rpn_conf",))
"""Part losses of detectors whose printed name does not contain "loss"."""

_QUALITY = re.compile(
    r"(?:^|_)(?:m?acc(?:uracy)?\d{0,2}|top_?\d{1,3}|prec(?:ision)?|recall|auc|auroc|roc|f1|f\d|bleu|rouge\w{0,4}|mae|mse|rmse"
    r"|m?ap(?:\d\w{0,6})?|m?iou|miou|pixacc|ppl|perplexity|wer|cer|psnr|ssim|dice|score|err(?:or)?|reward|mcc"
    r"|uas|las|fid|mrr|ndcg\w{0,3}|r2|em|pearson\w?|spearman\w?|abs_rel|sq_rel|delta\d?)(?:$|_)"
)
_PLACES = {
    "step": "step",
    "steps": "step",
    "global_step": "step",
    "global_steps": "step",
    "iter": "step",
    "iters": "step",
    "iteration": "step",
    "it": "step",
    "num_updates": "step",
    "updates": "step",
    "train_step": "step",
    "current_step": "step",
    "trainer/global_step": "step",
    "epoch": "epoch",
    "epochs": "epoch",
    "epoch_num": "epoch",
    "current_epoch": "epoch",
    "batch": "batch",
    "batch_idx": "batch",
    "n_batch": "batch",
    "total_steps": "total",
    "max_steps": "total",
    "num_training_steps": "total",
    "total_iters": "total",
    "max_iters": "total",
    "total_iterations": "total",
    "max_iterations": "total",
    "total_epochs": "epochs",
    "max_epochs": "epochs",
    "num_epochs": "epochs",
    "num_train_epochs": "epochs",
}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]{1,8}")
_SPACES = re.compile(r"[\s]{1,8}")


def read_name(printed: bytes) -> MetricName:
    """Reads one printed name, e.g. ``b"val_loss"`` or ``b"lm loss"``; never fails.

    Bytes that are not UTF-8 become replacement characters; a long name is truncated to ``LONGEST_NAME`` bytes.
    """
    return _read_name(printed[:LONGEST_NAME])


@lru_cache(maxsize=4096)
def _read_name(printed: bytes) -> MetricName:
    text = printed.decode("utf-8", "replace").strip()
    words = [word.lower() for word in _CAMEL.split(text) if word]
    metric = _SPACES.sub("_", text)
    lowered = metric.lower()
    is_loss = _is_loss(words) or lowered in _PART_LOSSES
    if is_loss:
        metric = metric.replace("-", "_")
        metric = metric.lower() if words[-1] == "loss" and set(words[:-1]) <= _PLAIN else metric
    return MetricName(
        metric=metric,
        is_loss=is_loss,
        is_quality=not is_loss and _is_quality(metric, words),
        split=_split(words),
        place=_PLACES.get(lowered),
    )


_PLAIN = frozenset(("total", "avg", "average", "lm", "mean")) | _EVAL_WORDS | _TRAIN_WORDS


def _is_loss(words: list[str]) -> bool:
    if "best" in words or "final" in words or not _SETTINGS.isdisjoint(words):
        return False
    joined = "".join(words)
    return any(word in _LOSS_WORDS or word.endswith("loss") for word in words) or joined.endswith(
        ("crossentropy", "smoothl1", "entropyloss")
    )


def _is_quality(metric: str, words: list[str]) -> bool:
    if "best" in words or any(word in ("weight", "norm", "time", "scale") for word in words):
        return False
    whole = re.sub(r"[^a-z0-9]{1,8}", "_", metric.lower())
    return whole.endswith(("acc", "accuracy")) or any(bool(_QUALITY.search(one)) for one in (whole, "_".join(words)))


def _split(words: list[str]) -> Split | None:
    if not _EVAL_WORDS.isdisjoint(words):
        return "eval"
    return "train" if not _TRAIN_WORDS.isdisjoint(words) else None


def is_total(metric: str) -> bool:
    """Whether a metric is a complete loss of any split: ``loss``, ``val_loss``, ``valid loss``, ``test/loss``."""
    return _total_of(metric) in TOTAL_LOSS_NAMES


@lru_cache(maxsize=4096)
def _total_of(metric: str) -> str:
    words = [word.lower() for word in _CAMEL.split(metric) if word]
    return "_".join(word for word in words if word not in _EVAL_WORDS)


def plain(name: str) -> str:
    """The normal form for comparing two spellings of a metric's name: ``"LM-loss"`` becomes ``"lm_loss"``."""
    return re.sub(r"[\s\-]{1,8}", "_", name.strip()).lower()

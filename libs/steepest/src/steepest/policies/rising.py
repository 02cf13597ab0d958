"""Which evaluation functions are the better the larger they are, by their names."""

from __future__ import annotations

import re

_RISES = re.compile(
    r"(^|[^a-z])(m?acc(uracy)?|auc|auroc|bleu|dice|em|f\d|m?ap|m?iou|mcc|mrr|ndcg|prec(ision)?|psnr|r2|recall|return|reward"
    r"|rouge|score|ssim|top_?\d)([^a-z]|$)"
)


def rises(metric: str) -> bool:
    """Whether a metric of this name is better when it is larger."""
    return _RISES.search(metric.lower()) is not None


def best_first(value: float | None, *, is_rising: bool) -> tuple[bool, float]:
    """A key that sorts values, the best first; those that are not finite (None) are last, and equal."""
    return value is None, 0.0 if value is None else -value if is_rising else value

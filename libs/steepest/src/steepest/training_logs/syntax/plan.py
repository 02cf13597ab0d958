"""What the numbers of a shape are, as far as its words tell: progress, metrics, split, header.

It owns the rules that need no other line. It must never know how a number behaves from line to line.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from steepest.training_logs.records import Split
from steepest.training_logs.syntax.shape import GAP, Field, Lexed, is_code, lex
from steepest.training_logs.syntax.words import (
    BEST,
    EVAL,
    LENGTHS,
    LEVELS,
    PROGRESS,
    TRAIN,
    NameRole,
    is_prose,
    named_before,
    role_of,
    word_set,
    words_of,
)

_FOREIGN_BAR = re.compile(r"\b(?:map|download\w{0,9}|loading|tokeniz\w{0,9}|filter|generating|extract\w{0,9}|files)\b")
_DECORATED = re.compile(r"\s{0,99}\W{2,99}[^\W\d]")
STEPS_BAR = "bar:steps"
"""Identifies a bar that is labelled as one over the steps of the run."""

STEP_BEHIND = "step:behind"
"""Identifies a number that is a step only if it is whole: it stands between a loss and another number."""

_SUMS_OF_RUN = ("train_runtime", "train_samples_per_second")
_HEADER_WORDS = word_set(
    "start starting begin running now run the on at results result phase error set epoch step iteration of data"
    " performance mode loss metrics"
)
_COUNTERS = (["i"], ["t"], ["k"])
_COPULAS = frozenset(["is", "was", "of", "value", "equals", "at"])
_COUNTED = ("last", "past", "previous", "first", "every", "over", "per")
_NO_UNITS = ("", "f", "f0")


class ProgressAt(NamedTuple):
    """A progress number: its kind and key, the indices of value and total, and the field that it is."""

    kind: str
    key: str
    at: int | None
    total: int | None
    field: Field


class MetricAt(NamedTuple):
    """A metric: its role, the indices of value and running mean; ``is_ratio``: the second divides the first.

    ``step`` is the index of a whole number between name and value; if it has a fraction, it is the value.
    """

    role: NameRole
    at: int
    spread: int | None = None
    is_ratio: bool = False
    step: int | None = None


@dataclass(slots=True)
class Segment:
    """One of several outputs that were joined on one line; ``rest`` are numbers that only a job that names one wants."""

    progress: list[ProgressAt] = field(default_factory=list)
    metrics: list[MetricAt] = field(default_factory=list)
    rest: list[MetricAt] = field(default_factory=list)
    _readings: list[MetricAt] | None = None

    def all(self) -> list[MetricAt]:
        """Every named number."""
        return [*self.metrics, *self.rest]

    def readings(self) -> list[MetricAt]:
        """The readings; without any, the other numbers."""
        if self._readings is None:
            readings = [one for one in self.metrics if one.role.kind in ("loss", "quality")]
            self._readings = readings or self.metrics
        return self._readings


@dataclass(slots=True)
class ShapePlan:
    """What a shape says.

    Attributes:
        segments: its outputs, mostly one.
        split: the split that a label names.
        phase: the split that it announces for the lines below, or ``summary``.
        is_best: whether it sums the run up.
        is_bar: whether it is a progress bar.
        is_code: whether it is source code or a trace.
        is_single: whether it is one name and one number, as the lines of a block are.
        named: whether a name is a loss, a quality or a split.
        quote: the quotes of its dictionary's keys.
        seen: how often it was met among source code.
        key: what identifies the shape.
        at_ms: which number is the time that the writer states, in milliseconds.
        is_dull: whether no word of it says anything; None until that is known.
        announces: whether it may state the length of the run.
        headless: whether lines with (True) and without columns were found to be no header.
    """

    segments: list[Segment]
    split: Split | None = None
    phase: str | None = None
    is_best: bool = False
    is_bar: bool = False
    is_code: bool = False
    is_single: bool = False
    named: bool = False
    quote: str = ""
    seen: int = 0
    key: int = 0
    at_ms: int | None = None
    is_dull: bool | None = None
    announces: bool = False
    headless: set[bool] = field(default_factory=set)

    @property
    def is_free_epoch(self) -> bool:
        """Whether an epoch that is printed as a fraction says nothing about the place."""
        steps = ("step", "iter", "global")
        return self.quote != "" or any(one.kind in steps for segment in self.segments for one in segment.progress)


def plan_of(shape: str) -> ShapePlan:
    """The plan of a shape; never fails."""
    planner = _Planner(shape, lex(shape))
    planner.read()
    return planner.plan


class _Planner:
    """Reads the fields of a shape from left to right."""

    def __init__(self, shape: str, lexed: Lexed) -> None:
        self.shape, self.lexed, self.fields = shape, lexed, lexed.fields
        self.plan = ShapePlan([Segment()], is_code=is_code(shape))
        self.leads = 0
        self.keyed = self.after_epoch = False
        self.named: set[tuple[str, tuple[str, ...]]] = set()
        self.loss: NameRole | None = None
        self.words = [word for label, _ in lexed.labels for word in words_of(label)]

    @property
    def segment(self) -> Segment:
        return self.plan.segments[-1]

    def begin_segment(self) -> None:
        self.plan.segments.append(Segment())
        self.named = set()

    def read(self) -> None:
        for number, one in enumerate(self.fields):
            if number in self.lexed.breaks and self.segment.metrics:
                self.begin_segment()
            self.take(number, one)
        plan = self.plan
        for segment in plan.segments:
            _name_objectives(segment)
        names = ["_".join(one.words).lower() for one in self.fields]
        plan.is_best = plan.is_best or ("loss" not in names and any(name.startswith(_SUMS_OF_RUN) for name in names))
        metrics = [metric for segment in plan.segments for metric in segment.metrics]
        self.label(metrics)
        plan.named = any(metric.role.kind in ("loss", "quality", "split") for metric in metrics)
        if len(self.fields) == 1 and not self.words:
            only = self.fields[0]
            plan.is_single = bool(only.words) and not (only.is_bar or only.is_keras_bar)
            if only.pair and only.words[-1:] == ["epochs"] and self.segment.progress:  # a setting: epochs = 10
                self.segment.progress[-1] = self.segment.progress[-1]._replace(kind="epochs")
        if "{" in self.shape and any(name.startswith("eval_") for name in names):
            trained = any(metric.role.kind == "loss" and metric.role.split != "eval" for metric in metrics)
            plan.split = plan.split if trained else "eval"
        plan.quote = next((mark for mark in "\"'" if "{" + mark in self.shape.replace(" ", "")), "")

    def take(self, number: int, one: Field) -> None:
        if one.words and all(word.lower() in LEVELS for word in one.words):
            one.words = []  # stdout F [0/25]
        if not one.words and one.after:
            self.name_by_words_behind(one)
        if not one.words and one.is_bar:
            self.take_bar(one)
        elif not one.words and not self.value_behind_step(one):
            self.take_nameless(one)
        elif one.words and one.words != ["-"]:
            self.take_named(number, one)

    def name_by_words_behind(self, one: Field) -> None:
        """``5.25 avg loss``, ``200 batches``: the words behind a number name it, if they mean anything."""
        role = role_of(" ".join(one.after))
        if one.after == ["avg"] and any(other.after[-1:] == ["rate"] for other in self.fields):
            role = NameRole("loss", "avg", mean=True)
        if one.unit or role.kind not in ("loss", "quality", "batch", "step", "iter", "epoch"):
            return
        one.words = one.after
        nameless = [other for other in self.fields if not other.words and other.at is not None and other is not one]
        if role.kind == "loss" and role.mean and not self.segment.metrics and nameless:
            self.loss_before_its_mean(one, nameless)

    def loss_before_its_mean(self, one: Field, nameless: list[Field]) -> None:
        """``12: 4.5, 5.25 avg loss``: the number before a mean of losses is the loss."""
        before = [
            other
            for other in nameless
            if not (other.after or other.unit or other.total) and (other.at or 0) < (one.at or 0)
        ]
        if not before or (len(before) < 2 and before[-1] is self.fields[0]):
            return
        at = before[-1].at or 0
        self.segment.metrics.append(MetricAt(NameRole("loss", "loss", whole=True), at))
        self.segment.progress[:] = [other for other in self.segment.progress if other.at != at]
        one.words = ["-"]

    def take_bar(self, one: Field) -> None:
        label = " ".join(one.label)
        if role_of(label).split == "eval" or any(word in EVAL for word in self.words[-4:]):
            self.plan.split = "eval"
        if one.total is None or _FOREIGN_BAR.search(label.lower()):
            return
        self.plan.is_bar = True
        if self.plan.split != "eval":
            self.add("bar", STEPS_BAR if role_of(label).kind == "step" else "bar", one)

    def add(self, kind: str, key: str, one: Field) -> None:
        self.segment.progress.append(ProgressAt(kind, key, one.at, one.total, one))

    def value_behind_step(self, one: Field) -> bool:
        """``training loss at step 5: 2.5``, ``train loss 5 2.5``: the loss is named before the step."""
        progress, metrics = self.segment.progress, self.segment.metrics
        if one.after or one.at is None or one.total is not None or one.unit:
            return False
        if not progress:
            before = self.fields[self.fields.index(one) - 1]
            if (
                before.pair
                or before.bracket
                or not metrics
                or metrics[-1] != MetricAt(metrics[-1].role, one.at - 1)
                or metrics[-1].role.kind != "loss"
            ):
                return False
            metrics[-1] = metrics[-1]._replace(at=one.at, step=before.at)
            self.add("step", STEP_BEHIND, before)
            return True
        if progress[-1].at != one.at - 1:
            return False
        words = progress[-1].field.words
        if not (cut := named_before(words)):
            return False
        metrics.append(MetricAt(role_of(" ".join(words[:cut])), one.at))
        return True

    def take_nameless(self, one: Field) -> None:
        if one.unit or one.at is None:
            return
        if one.is_keras_bar:
            if self.segment.metrics and any(other.kind == "keras" for other in self.segment.progress):
                self.begin_segment()
            self.add("keras", "keras", one)
        elif one.total is not None:
            kind = "beside" if self.after_epoch else "middle" if self.keyed else "front"
            kind = "tail" if self.segment.metrics else kind
            same = sum(other.kind == kind for other in self.segment.progress)
            self.add(kind, f"{kind}{same or ''}", one)
        elif (
            not self.keyed
            and self.leads < 5
            and one.leading
            and all(metric.role.kind == "other" for metric in self.segment.metrics)
        ):
            self.add("lead", f"lead{self.leads}{'[' * one.bracket}", one)
            self.leads += 1
            if self.shape.strip()[:7].replace(" ", "") == f"[{GAP},{GAP}]" and self.leads == 2:
                pair = self.segment.progress
                pair[:] = [pair[0]._replace(kind="epoch"), pair[1]._replace(kind="iter")]  # [1, 2000] loss: 2.5
        elif self.after_epoch and one.bracket:
            self.add("beside", "after", one)

    def take_named(self, number: int, one: Field) -> None:
        words = one.words
        before = self.fields[number - 1] if number else one
        follows = one.pair == ":" and not before.pair and before.at == (one.at or 0) - 1
        if follows and before.words[-1:] == ["of"] and (cut := named_before(before.words)):  # loss of 8 batches: 0.5
            words = one.words = before.words[:cut]
            self.segment.metrics[:] = [other for other in self.segment.metrics if other.at != before.at]
        if words in _COUNTERS and one.pair == "=" and not (self.keyed or one.total or one.unit):
            self.add("lead", f"lead:{words[0]}", one)
            return
        if all(word.lower() in _COPULAS for word in words):
            words = next((other.words for other in reversed(self.fields[:number]) if other.words), words)
            words = words[: named_before(words)] or [
                word for word in words if word.lower() not in ("minibatches", "for")
            ]
            one.words = words
        roles = ((parent, role_of(parent)) for parent in one.parents)
        phrase = " ".join([*(parent for parent, role in roles if role.split or role.kind == "loss"), *words])
        if one.total is not None and words and "/" in words[-1]:
            head, _, tail = words[-1].partition("/")
            phrase = head if role_of(head).kind in PROGRESS else phrase  # global_step/max_steps: '12/94'
            if role_of(head).kind == "epoch" and (kind := role_of(tail).kind) in PROGRESS:  # epoch/iter: 2/500
                self.segment.progress.append(ProgressAt(kind, f"{kind}:{tail}", one.total, None, one))
                one.total = None
        role = role_of(phrase)
        if role.kind == "split" and one.at is not None:
            if (renamed := self.split_as_name(one, role)) is None:
                return
            role = renamed
        elif role.kind == "loss" and len(role.words) > 1 and role.words[-1] in TRAIN | EVAL and not role.mean:
            self.loss = role
        if self.is_progress(one, role):
            self.take_progress(one, role)
            return
        if role.kind in ("other", "skip") and one.total is not None and not one.unit:
            self.add("key", "key:" + "_".join(role.words[-2:]), one)
        self.keyed = self.keyed or role.kind in ("loss", "quality", "split", "best")
        self.after_epoch = False
        self.take_metric(one, role, words)

    def split_as_name(self, one: Field, role: NameRole) -> NameRole | None:
        """``loss train: 1.5, val: 1.25`` continues a loss; ``Train: 1 [50/100]`` is an epoch; ``[Test][3/9]`` a place."""
        if self.loss is not None and not one.unit:
            return NameRole("loss", f"{role.split}_{self.loss.metric}", role.split, whole=self.loss.whole)
        if one.total is not None and one.bracket:
            self.add("front", f"front_{role.split}", one)
            self.plan.split = role.split
            return None
        fraction = any(other.total is not None and other.bracket and not other.words for other in self.fields)
        if one.total is not None or (one.pair != "=" and not one.bracket and fraction):
            return NameRole("epoch", role.metric, role.split, words=role.words)
        return role

    def is_progress(self, one: Field, role: NameRole) -> bool:
        if role.kind not in PROGRESS and role.kind not in LENGTHS:
            return False
        return one.unit in ("", "th") or (role.kind in ("epoch", "batch", "iter") and one.words == [role.kind])

    def take_progress(self, one: Field, role: NameRole) -> None:
        key = (role.kind, role.words)
        if key in self.named and self.segment.metrics and role.kind in ("step", "iter", "global"):
            self.begin_segment()
        self.named.add(key)
        self.add(role.kind, f"{role.kind}:{'_'.join(role.words[-3:])}", one)
        if role.split and self.plan.split is None and role.kind not in LENGTHS:
            self.plan.split = role.split
        self.plan.is_best = self.plan.is_best or any(word.lower() in BEST - {"summary"} for word in one.words)
        self.after_epoch = role.kind == "epoch"
        self.keyed = True

    def take_metric(self, one: Field, role: NameRole, words: list[str]) -> None:
        metrics = self.segment.metrics
        reads = role.kind in ("loss", "quality")
        if reads and not one.pair and (is_prose(role, words) or words[-1].lower() in _COUNTED):
            return
        if role.kind in ("loss", "quality", "split"):
            if (
                one.at is None
                or one.is_bar
                or (one.unit not in _NO_UNITS and not (one.unit == "%" and role.kind == "quality"))
            ):
                return
            if one.total is not None and role.kind == "quality" and not one.unit:
                metrics.append(MetricAt(role, one.at, one.total, is_ratio=True))
            elif one.total is None:
                metrics.append(MetricAt(role, one.at, one.mean if one.pair != "=" else None))
            return
        labels = role.kind == "other" and role.split and self.plan.split is None and one.pair != "="
        if labels and not any(metric.role.kind in ("loss", "quality") for metric in metrics):
            self.plan.split = role.split  # Test net output #1: loss = 2.5
        elif not one.unit and one.total is None and one.at is not None:
            named = metrics if role.kind == "other" and not one.bracket else self.segment.rest
            named.append(MetricAt(role, one.at))

    def label(self, metrics: list[MetricAt]) -> None:
        """Reads the labels of the line: its split, whether it sums the run up, whether it is a header."""
        plan = self.plan
        reported = {metric.at for metric in metrics if metric.role.kind in ("loss", "quality")}
        first = next((number for number, one in enumerate(self.fields) if one.at in reported), len(self.fields))
        before = [word for label, at in self.lexed.labels if at <= first for word in words_of(label)]
        if "best" in before or (before and before[0] in BEST):
            plan.is_best = True
        starred = self.shape.strip()[:2] == "**" and {"metrics", "train"} <= set(before)
        of_epoch = any(place.kind == "epoch" for segment in plan.segments for place in segment.progress)
        if ("summary" in before and not of_epoch) or ("history" in before and self.lexed.is_header) or starred:
            plan.phase = "summary"
        elif plan.split is None and not plan.is_bar:
            plan.split = next(("eval" if word in EVAL else "train" for word in before if word in EVAL | TRAIN), None)
        self.label_later_metrics(first)
        if "saving dict" in " ".join([*self.words[:6], *(self.fields[0].words[:6] if self.fields else ())]).lower():
            plan.split = "eval"
        if plan.phase is None and not plan.is_bar and not reported:
            self.read_header()

    def label_later_metrics(self, first: int) -> None:
        """``train loss 1 acc 2 | val loss 3 acc 4``, where the second label is no part of a name."""
        segment = self.plan.segments[0]
        if len(self.plan.segments) > 1 or len(segment.metrics) < 2:
            return
        for label, at in self.lexed.labels:
            word = label.lower()
            if not first < at < len(self.fields) or word not in EVAL | TRAIN:
                continue
            from_at = next((one.at for one in self.fields[at:] if one.at is not None), None)
            later = [metric for metric in segment.metrics if from_at is not None and metric.at >= from_at]
            earlier = [metric for metric in segment.metrics if metric not in later]
            if {metric.role.metric for metric in later} & {metric.role.metric for metric in earlier}:
                split: Split = "eval" if word in EVAL else "train"
                segment.metrics[:] = earlier + [
                    metric._replace(role=metric.role._replace(split=metric.role.split or split)) for metric in later
                ]
            return

    def read_header(self) -> None:
        """A line of few words that names a split and no number of its own: ``Test Error:``, ``Validation at epoch 5``."""
        progress = [one for segment in self.plan.segments for one in segment.progress]
        kinds = [role_of(" ".join(one.words)).kind if one.words else "" for one in self.fields]
        if any(kind not in (*PROGRESS, *LENGTHS) for kind in kinds):
            return
        named = [name for one in progress for name in one.field.words if "_" not in name]
        words = self.words + [word for name in named for word in words_of(name)]
        heads = [word for word in words[:4] if word in EVAL | TRAIN]
        content = [word for word in words if word not in _HEADER_WORDS]
        decorated = bool(_DECORATED.match(self.shape)) and self.shape.strip()[-1:] in "*=-#~]>"
        announced = self.lexed.is_header or decorated or bool(progress) or len(words) <= 2
        if heads and announced and len(words) <= 6 and len(content) <= 2:
            self.plan.phase = "eval" if heads[0] in EVAL else "train"


def _name_objectives(segment: Segment) -> None:
    """``0: learn: 0.69 test: 0.7``: bare splits are the objective, which has no other name (CatBoost)."""
    kinds = {metric.role.kind for metric in segment.metrics}
    if "split" not in kinds or "loss" in kinds:
        return
    learns = any(metric.role.kind == "split" and metric.role.words[-1:] == ("learn",) for metric in segment.metrics)
    rounds = [place.kind for place in segment.progress] == ["lead"] and "quality" not in kinds
    if learns or rounds:
        segment.metrics[:] = [
            metric._replace(role=NameRole("loss", f"{metric.role.metric}_loss", metric.role.split, whole=True))
            if metric.role.kind == "split"
            else metric
            for metric in segment.metrics
        ]

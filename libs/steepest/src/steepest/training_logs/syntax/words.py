"""The role of a printed name by its words alone: a loss, a quality, the progress of a run, a split, or nothing of interest.

It owns all lists of words. It must never know a line: the same name means the same thing in every log.
"""

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from steepest.training_logs.records import TOTAL_LOSS_NAMES, Split

LONGEST_NAME = 160
"""Characters of a name. No framework's is half as long, and a hostile one must not grow the state."""

Kind = Literal[
    "global", "step", "iter", "batch", "epoch", "episode", "total", "epochs", "loss", "quality", "split", "best", "skip",
    "other",
]  # fmt: skip
"""``global`` to ``episode`` are the progress of a run, ``total`` and ``epochs`` its length; ``best`` sums the run up."""

PROGRESS = ("global", "step", "iter", "batch", "epoch", "episode")
LENGTHS = ("total", "epochs")


class NameRole(NamedTuple):
    """What a name means.

    Attributes:
        kind: see ``Kind``.
        metric: the name as it is reported: the printed one, with underscores for spaces.
        split: the split that the name implies.
        whole: whether it is the loss itself, not a part of it.
        mean: whether it is a mean over a window or an epoch.
        words: the name's words in lower case, without accents.
    """

    kind: Kind
    metric: str
    split: Split | None = None
    whole: bool = False
    mean: bool = False
    words: tuple[str, ...] = ()


def word_set(words: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(words.split())


EVAL = word_set(
    "val vali valid validate validation validating valset validset test testing tests testset eval evaluation evaluating"
    " evaluate dev heldout holdout cv validacao validacion validierung prueba teste проверка валидация валид тест"
)
TRAIN = word_set(
    "train training trainset trn learn treino treinamento entrenamiento entrainement apprentissage обучение"
)
LOSSES = word_set(
    "loss losses crossentropy smoothl1 nll xent cost costs objective criterion elbo perda perdida perte verlust"
    " kayip kayıp потери потеря лосс"
)
ERRORS = word_set(
    "rmse rmsle mae mse l1 l2 mape mphe huber poisson quantile tweedie gamma mlogloss nloglik deviance fair"
)
"""Objectives of boosting without the word loss; each is the loss where it is measured on the training set."""

BEST = word_set("best final lowest minimum min max maximum highest summary previous prev improved saved saving")
MEANS = word_set("avg average mean running smoothed smooth ema avr moving history median epoch")
EPOCH = word_set("epoch epochs ep epoca epocas epoque epoche эпоха epochen epoches")
STEP = word_set("step steps timesteps timestep passo paso etape schritt шаг")
ITERATION = word_set(
    "iter iters iteration iterations it itr update updates up upd nupdates niter iteracao iteracion итерация"
)
BATCH = word_set("batch batches minibatch minibatches nbatch")
ROUND = word_set("round rounds tree trees")
_UNITS = EPOCH | STEP | ITERATION | BATCH
LEVELS = word_set("debug info warning warn error critical notice trace root stdout stderr f")
"""Levels and streams that other programs print before a line."""

_COLUMNS = word_set("box obj cls dfl giou kobj pose seg total")
"""Losses of a detector's table, which alone would be ordinary words."""

_PARTS = word_set(
    "rpn_conf l_pix l_g_pix l_percep d_a d_b g_a g_b cycle_a cycle_b idt_a idt_b d_real d_fake g_gan g_l1"
)
_SETTINGS = word_set(
    "scale scaler scaling fn func function weight weights type name coef coeff coefficient factor reduction window alpha"
    " beta gamma ratio interval freq frequency mode threshold margin temperature file path dir key every steps size impl"
    " config cfg prefix improvement count counter time ms sec eps epsilon rate only batch reader data per improve patience"
    " num spike spikes took weighting norm"
)
_NO_PROGRESS = word_set(
    "episode warmup skipped skip nan per time size every interval save accumulation decay length remaining number this"
    " episodes max total num min last avg mean sec second ms took bs best gradient freq log lr rate from saving saved save"
    " checkpoint checkpoints loading loaded resume resuming resumed restored wrote writing"
)
_FILLERS = word_set("completed complete number no idx index is was are at of value the num nr to equals")
_AT = word_set("at after in for")
"""Between a loss and the place of it: ``loss at epoch 3``."""

_PREPOSITIONS = word_set("at after in for on of")
_PROSE_WORDS = 4
_PLAIN = word_set("batch step the current reduced iter this a")
_WHOLES = word_set("total tot overall lm")
_SETS = word_set("set split data")
_QUALITY = re.compile(
    r"(?:^|_)(?:m?acc(?:uracy|u)?\d{0,2}|top_?\d{1,3}|prec(?:ision)?|recall|auc|auroc|roc|f1|f\d|bleu|rouge\w{0,4}|mae|mse"
    r"|rmse|m?ap(?:\d\w{0,6})?|m?ap_\d{1,3}|m?iou|pixacc|ppl|perplexity|wer|cer|psnr|ssim|dice|score|err(?:or)?|reward|mcc"
    r"|uas|las|fid\w{0,9}|mrr|ndcg\w{0,3}|r2|em|pearson\w?|spearman\w?|delta_?\d?|abs_rel|sq_rel|rmse_log|(?:val|valid|test|dev)_[pr])(?:$|_)"
)
_BEFORE = re.compile(r" (?:before|during) ")
_CUT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^\w]{1,8}|_{1,8}")
_SOURCE_FILE = re.compile(r"\.(?:py|cc|cpp|cxx|c|h|hpp|cu|go|rs|java|scala|lua|ipynb)$")
_COMPOUND = re.compile(r"(?:val|valid\w{0,9}|test|eval\w{0,6}|dev)(?:loss|verlust|fehler)$")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ACCENTS = str.maketrans("áàâãäéèêëíìîïóòôõöúùûüçñ", "aaaaaeeeeiiiiooooouuuucn")
_CJK_SPLITS: tuple[tuple[Split, tuple[str, ...]], ...] = (
    ("eval", ("验证", "驗證", "测试", "測試", "検証", "評価", "评估", "검증", "테스트")),
    ("train", ("训练", "訓練", "学習損", "훈련", "학습 손")),
)
_CJK_KINDS: tuple[tuple[Kind, tuple[str, ...]], ...] = (
    ("loss", ("损失", "損失", "손실", "ロス")),
    ("epoch", ("轮", "輪", "エポック", "에폭", "世代", "周期")),
    ("step", ("步", "ステップ", "스텝", "迭代")),
    ("quality", ("准确", "準確", "精度", "正解率", "정확")),
)
_CJK_LENGTHS = ("总", "共", "每", "时", "耗")


_STEMS = (
    "loss|los |obj|nll|entropy|xent|cost|elbo|crit|perd|pert|verlust|l_|_l|val|test|eval|dev|hold|cv|pro|train|trn|learn"
    "|trei|entr|appren|ep|iter|it\\b|upd|up\\b|step|paso|passo|etape|schritt|batch|round|tree|acc|top|prec|recall|auc|roc|f\\d"
    "|bleu|rouge|m[as]e|rms|ma?p|iou|ppl|wer|cer|psnr|ssim|dice|score|err|reward|mcc|uas|las|fid|mrr|ndcg|r2|em|pear|spear|delta"
    "|rel|best|summary|max|num|total|l[12]\\b|huber|poisson|quantile|tweedie|gamma|dev|fair|metrics|rpn|avg|[dg]_|_[ab]\\b"
)
INTERESTING = re.compile(f"(?i:{_STEMS})|[^\\x00-\\x7f]")
"""What a line must contain to say anything by its words."""


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, without accents, levels and streams; camel case is cut."""
    text = text if text.isascii() else text.translate(_ACCENTS)
    return [word for part in _CUT.split(text) if part and ((word := part.lower()) not in LEVELS or word == "error")]


@lru_cache(maxsize=8192)
def role_of(phrase: str, *, column: bool = False) -> NameRole:
    """The role of a name; never fails.

    Args:
        phrase: the name as printed; what exceeds ``LONGEST_NAME`` is ignored.
        column: whether it heads a column of a detector's table.
    """
    whole = phrase[:LONGEST_NAME].encode("utf-8", "replace").decode()  # JSON may hold halves of characters
    phrase = _BEFORE.split(whole, maxsplit=1)[0]
    if _CJK.search(phrase):
        return _cjk(phrase)
    words = tuple(words_of(phrase))
    if not words:
        return NameRole("other", "")
    name = _printed(phrase)
    if _SOURCE_FILE.search(name):
        return NameRole("skip", name)
    split = _split(words)
    core = words
    while (
        len(core) > 1 and "/" not in phrase and (core[-1] in _FILLERS or (core[-1] == "count" and core[-2] in _UNITS))
    ):
        core = core[:-1]
    if len(core) > 2 and core[-2] == "per":
        core = core[:-2]  # loss per sample
    if core[-1] in EVAL | TRAIN and all(word in EVAL | TRAIN | _SETS for word in core):
        return NameRole("split", name, split, words=words)
    role = _progress(phrase, words, core, name, split) or _metric(phrase, words, core, name, split, column=column)
    return role._replace(metric=_spelled(role.metric, core)) if role.kind == "loss" else role


def _cjk(phrase: str) -> NameRole:
    split = next((split for split, marks in _CJK_SPLITS if any(mark in phrase for mark in marks)), None)
    kind: Kind = next((kind for kind, marks in _CJK_KINDS if any(mark in phrase for mark in marks)), "other")
    if kind in PROGRESS and any(mark in phrase for mark in _CJK_LENGTHS):
        kind = "skip"
    return NameRole(kind, phrase.replace(" ", "_"), split, whole=kind == "loss")


def _printed(phrase: str) -> str:
    """The name without levels and closing filler words."""
    parts = [
        part
        for part in phrase.split()
        if (part.lower().strip(".") not in LEVELS and "/s" not in part[:-1]) or part.lower().endswith("loss")
    ] or phrase.split()
    while len(parts) > 1 and parts[-1].lower() in _FILLERS:
        parts.pop()
    return "_".join(part.strip(".") for part in parts)


def _spelled(name: str, core: tuple[str, ...]) -> str:
    """A loss in its usual spelling: ``Train Loss`` is ``train_loss``; a name of its own stays as printed."""
    name = name.replace("-", "_")
    plain = core[-1] == "loss" and set(core[:-1]) <= _SPELLED
    return name.lower() if plain else name


_SPELLED = EVAL | TRAIN | {"total", "avg", "average", "lm", "mean"}


def _split(words: tuple[str, ...]) -> Split | None:
    for word in reversed(words):
        if word in EVAL or word in TRAIN:
            return "eval" if word in EVAL else "train"
    return "eval" if any(_COMPOUND.match(word) for word in words) else None


def _progress(
    phrase: str, words: tuple[str, ...], core: tuple[str, ...], name: str, split: Split | None
) -> NameRole | None:
    last, known = core[-1], set(words)
    if last in ("episode", "episodes") and known & _NO_PROGRESS <= {"episode", "episodes"}:
        return NameRole("episode", name, split, words=words)
    if last not in EPOCH | STEP | ITERATION | BATCH | ROUND or "/sec" in phrase:
        return None
    if known & LOSSES and not known & _AT and (last in EPOCH or (last in STEP and "_" in phrase)):
        return NameRole("loss", name, split, whole=True, mean=last in EPOCH, words=words)  # train_loss_epoch
    return NameRole(_progress_kind(words, last, known), name, split, words=words)


def _progress_kind(words: tuple[str, ...], last: str, known: set[str]) -> Kind:
    odd = known & _NO_PROGRESS
    if "timesteps" in known and odd <= {"total", "num"}:
        return "global" if odd else "step"
    if odd == {"num"} and ("updates" in known or words.index("num") > words.index(last)):
        return "epoch" if last in EPOCH else "global"  # epoch_num
    if odd and odd <= {"max", "total", "num"}:
        return "epochs" if last in EPOCH else "total"
    if odd:
        return "best" if "best" in odd else "skip"
    if last in EPOCH:
        return "epoch"
    if last in BATCH:
        return "batch"
    if known & {"global", "optimizer"}:
        return "global"
    return "step" if last in STEP else "iter"


def _metric(
    phrase: str, words: tuple[str, ...], core: tuple[str, ...], name: str, split: Split | None, *, column: bool
) -> NameRole:
    known = set(words)
    if "best" in known or "summary" in known or {"over", "run"} <= known or (known & BEST and _has_loss(words)):
        return NameRole("best", name, split, words=words)
    if words[-1] in ("lr", "rate") or "lr" in known:
        return NameRole("skip", name, split, words=words)
    if _is_loss(phrase, words, core, column=column):
        mean = bool(known & MEANS)
        return NameRole("loss", name, split, whole=_is_whole(core, known), mean=mean, words=words)
    if known & (_SETTINGS - {"gamma"}):
        return NameRole("skip", name, split, words=words)
    whole = re.sub(r"[^a-z0-9]+", "_", phrase.lower())
    if (
        whole.endswith(("acc", "accuracy"))
        or _QUALITY.search(whole)
        or _QUALITY.search("_".join(core))
        or "metrics" in known
        or (split and known & ERRORS)
    ):
        return NameRole("quality", name, split, words=words)
    return NameRole("other", name, split, words=words)


def _has_loss(words: tuple[str, ...]) -> bool:
    return any(word in LOSSES or word.endswith(("loss", "verlust")) for word in words)


def _is_loss(phrase: str, words: tuple[str, ...], core: tuple[str, ...], *, column: bool) -> bool:
    known, last, joined = set(words), core[-1], "_".join(core)
    if "metrics" in known and "loss" not in known:
        return False
    others = known & (LOSSES - {"objective"})
    if "objective" in known and last not in ("objective", "function", "output") and "/" in phrase and not others:
        return False  # objective/kl
    named = (
        _has_loss(words)
        or "".join(core).endswith(("crossentropy", "smoothl1"))
        or joined in _PARTS
        or (column and joined in _COLUMNS)
    )
    ends = last in LOSSES or last.endswith(("loss", "verlust")) or "objective" in known
    if last in ("cost", "costs") and known & _SETTINGS:
        return False  # batch_cost, reader_cost: seconds
    settings = known & _SETTINGS - ({"func", "function"} if "value" in known else set())
    return named and (ends or not settings)


def _is_whole(core: tuple[str, ...], known: set[str]) -> bool:
    if known & {"cost", "costs"} and known & (TRAIN | EVAL):
        return False
    rest = [word for word in core if word not in TRAIN | EVAL | MEANS | _PLAIN]
    return rest in (["loss"], ["losses"]) or (
        len(rest) == 1 and rest[0] in LOSSES and rest[0] not in ("nll", "smoothl1")
    )


def named_before(words: list[str]) -> int:
    """How many words before a preposition name a metric: of ``training loss at step``, the first two."""
    cut = next((at for at, word in enumerate(words) if word.lower() in _PREPOSITIONS), 0)
    return cut if role_of(" ".join(words[:cut])).kind in ("loss", "quality") else 0


def is_prose(role: NameRole, words: list[str]) -> bool:
    """Whether too many words stand between a name and its number: ``losses are gathered in buckets of 10``."""
    if len(words) < 5 or words[-1].lower() in ("is", "was"):
        return False
    at = max((at for at, word in enumerate(words) if role_of(word).kind == role.kind), default=0)
    return len(words) - at > _PROSE_WORDS


@lru_cache(maxsize=1024)
def is_complete(metric: str) -> bool:
    """Whether a reported name is a complete loss, and not a part, a mean over an epoch or a loss of another kind."""
    role = role_of(metric)
    rest = [word for word in role.words if word not in TRAIN | MEANS | _PLAIN | _WHOLES]
    whole = role.whole or (len(rest) == 1 and rest[0] in LOSSES)
    return metric in TOTAL_LOSS_NAMES or (role.kind == "loss" and whole and not role.mean)


def plain(name: str) -> str:
    """The normal form for comparing two spellings of a metric's name: ``"LM-loss"`` becomes ``"lm_loss"``."""
    return re.sub(r"[\s\-]{1,8}", "_", name.strip()).lower()


def is_reported(role: NameRole, split: Split, wanted: str | None) -> bool:
    """Whether a name is reported: losses and held-out qualities, or the metric that the job asked for."""
    if wanted is None or wanted == SUM_OF_PARTS:
        return role.kind == "loss" or (split == "eval" and role.kind == "quality")
    return plain(role.metric) == wanted


SUM_OF_PARTS = "sum"
"""The metric name that requests the sum of a line's part losses (some detectors print no total)."""

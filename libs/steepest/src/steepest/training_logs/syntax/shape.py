"""A line as a shape and its numbers: the text between the numbers is analysed once for all lines that share it.

It owns how a line is cut: marks for times and bars, numbers, and the words that name each number. It must never know what a
word means.
"""

import re
from typing import NamedTuple

NUMBER = (
    r"[-+]?(?:\d{1,40}+(?:\.\d{0,40}+)?(?:[eE][-+]?\d{1,4}+)?|\.\d{1,40}+(?:[eE][-+]?\d{1,4}+)?"
    r"|(?i:nan|inf(?:inity)?)(?!\w))"
)
_THOUSANDS = r"\d{1,3}(?:,\d{3}){1,4}(?=[\s|\]);:/]|$)"
NUMBERS = re.compile(r"(?<![\w.@])(?<!\w-)((?<!,)" + _THOUSANDS + "|" + NUMBER + ")")

GAP, BAR, KERAS_BAR, TIME = "\0", "\x01", "\x02", "\x03"
"""What stands for a number in a shape, and for a percentage with its bar, Keras' bar and a time in a line."""

BAR_PATTERN = r"\d{1,3}%\s?\|[^|A-Za-z]{0,300}\|"
KERAS_BAR_PATTERN = r"(?:\[[=>.]{4,200}\]|(?:\xe2[\x80-\xbf]{2}){4,200})"
"""Of Latin-1 text."""

_BAR = re.compile(BAR_PATTERN)
_KERAS_BAR = re.compile(r"\[[=>.]{4,200}\]|[━╸╺─█▏▎▍▌▋▊▉╶╴]{4,200}")
TIME_PATTERN = (
    r"(?:\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)?"
    r"|\d{1,2}/\d\d \d\d:\d\d:\d\d(?:[.,]\d{1,9})?|\d{1,3}:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?!\d))"
)
_TIME = re.compile(r"(?<![\w.])" + TIME_PATTERN + r"(?!\w|:)")
_SPACES = re.compile(r" {2,64}")
_ANSI = re.compile(r"\x1b(?:\[[0-9;?:]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)?|[@-Z\\^_=>])")
_CONTROLS = {0: 32, 1: 32, 2: 32, 3: 32}
_UPRIGHTS = str.maketrans("│┃║", "|||")
_TOKEN = re.compile(r"[^\W\d_](?:(?:[\w./@#*+&-]|['’](?=\w)){0,100}[\w@])?|_\w{1,60}|\w{1,60}|\t| {1,3}|.", re.DOTALL)
_EPOCH_WORD = re.compile(r"[Ee](?:poch)?[_-]?(\d{1,6})")
_MOST_WORDS, _MOST_OF_NAME, _MOST_FIELDS, _MOST_LABELS, _DEEPEST = 12, 6, 200, 60, 16
_COUNTED = {"epoch": "epoch", "epochs": "epoch", "batch": "batch", "batches": "batch", "iter": "iter", "iters": "iter"}
"""Words that name the number that they are glued to: ``3epoch``."""

_SENTENCE = re.compile(r"[A-Z][a-z]{4,60}")
"""A word that no unit is: another output begins behind the number, without a new line."""

_SILENT = frozenset("'\"#*$`~!")
_QUOTES = ("'", '"')
_ENDS = frozenset(",;|\t│•→")


_CODE = re.compile(
    r"\b(?:def|return|import|lambda|elif|raise)\b |\bself\.|print\(|[\w)\]] ?[=!]= ?[\w(]|f\"|\)\s?:$|[\w)\]] ?\+= "
    r"|^\s{0,99}(?:if|for|while|with|class|assert|try|except)\b.{0,200}:\s{0,9}$|^\s{0,99}(?:File \"|#|@\w|\"\"\")|\bNone\):"
)


def is_code(shape: str) -> bool:
    """Whether a shape is that of source code or of a trace."""
    return _CODE.search(shape.replace(GAP, "0")) is not None


def without_escapes(text: str) -> str:
    """The text without the escape sequences of terminals."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def marked(text: str) -> str:
    """The text with one mark for each bar, one bar character and single spaces; its times are still in place."""
    if "\0" in text or "\x01" in text or "\x02" in text or "\x03" in text:
        text = text.translate(_CONTROLS)
    if "|" in text and "%" in text:
        text = _BAR.sub(BAR, text)
    if "[=" in text or "[..." in text or "━" in text or "[>" in text or "█" in text:
        text = _KERAS_BAR.sub(KERAS_BAR, text)
    if not text.isascii():
        text = text.translate(_UPRIGHTS)
    return text


def cut(text: str) -> tuple[str, list[str]]:
    """The shape of a marked text and its numbers."""
    if "  " in text:
        text = _SPACES.sub(" ", text)
    if ":" in text or "-" in text or "/" in text:
        text = _TIME.sub(TIME, text)
    parts = NUMBERS.split(text)
    if "," in text:
        parts[1::2] = [number.replace(",", "") for number in parts[1::2]]
    return GAP.join(parts[::2]), parts[1::2]


class Field:
    """One number of a shape.

    Attributes:
        words: its name.
        at: its index among the numbers; None if it is glued to its name.
        total: index of the number behind a slash.
        mean: index of the number behind it in parentheses.
        unit: a word or per cent sign that is glued to it.
        after: words behind it, where none stand before it.
        is_bar: whether it stands behind a progress bar.
        is_keras_bar: whether it stands before Keras' bar.
        fixed: the value where it is glued to its name.
        bracket: whether it stands in brackets.
        leading: whether a separator follows it.
        pair: the separator between name and number: ``=``, ``:`` or nothing.
        label: the words before its bar.
        parents: the names of the dictionaries that it is nested in, from outside.
    """

    __slots__ = (
        "after", "at", "bracket", "fixed", "is_bar", "is_keras_bar", "label", "leading", "mean", "pair", "parents",
        "total", "unit", "words",
    )  # fmt: skip

    def __init__(self, words: list[str], at: int | None, *, bracket: bool = False, fixed: int | None = None) -> None:
        self.words, self.at, self.bracket, self.fixed = words, at, bracket, fixed
        self.total: int | None = None
        self.mean: int | None = None
        self.after: list[str] = []
        self.label: list[str] = []
        self.parents: list[str] = []
        self.unit = self.pair = ""
        self.is_bar = self.is_keras_bar = self.leading = False


class Lexed(NamedTuple):
    """What a shape consists of.

    ``labels`` are words that name no number, with the number of fields before each; ``breaks`` are the ends of dictionaries.
    """

    fields: list[Field]
    labels: list[tuple[str, int]]
    breaks: list[int]
    is_header: bool


class _Lexer:
    """Reads the tokens of a shape from left to right. ``phrase`` are the words that may name the next number."""

    def __init__(self) -> None:
        self.fields: list[Field] = []
        self.labels: list[tuple[str, int]] = []
        self.breaks: list[int] = []
        self.phrase: list[str] = []
        self.outer: list[list[str]] = []
        self.parents: list[list[str]] = []
        self.named: list[str] = []
        self.is_name = self.is_dropped = False
        self.pair = ""
        self.last: Field | None = None
        self.before = self.before2 = ""
        self.bar_label: list[str] | None = None

    def note(self, token: str) -> None:
        """Remembers the kind of the latest token: ``N``, ``W`` or the mark itself."""
        self.before2, self.before = self.before, token

    def as_labels(self) -> None:
        """The phrase names no number: it becomes labels, and follows the last number if that has no name."""
        last = self.last
        if last is not None and not last.words and not last.after and not self.pair and not last.is_bar:
            last.after = self.phrase[-_MOST_OF_NAME:]
        if self.is_name and self.phrase:
            self.named, self.is_name = self.phrase, False
        if not self.is_dropped:
            self.labels += [(word, len(self.fields)) for word in self.phrase]
        self.phrase, self.pair, self.is_dropped = [], "", False

    def word(self, token: str, *, glued: bool) -> None:
        last = self.last
        glued = glued and not _SENTENCE.fullmatch(token)
        if token.isdigit() and self.before + self.before2 == "-N":
            return  # minibatches 0-9
        if glued and last is not None and self.before == "M":
            last.mean = None  # loss: 0.5 (20.5s)
            self.note("U")
            return
        if glued and last is not None:
            last.unit = token
            if not last.words and token.lower() in _COUNTED:
                last.words = [_COUNTED[token.lower()]]
            self.note("U")
            return
        if self.pair and self.parents:  # "mode": "val"
            self.is_name, self.is_dropped = self.phrase in _NAME_KEYS, self.phrase not in _SPLIT_KEYS
            self.phrase, self.pair = [], ""
        elif self.pair:
            self.labels += [(word, len(self.fields)) for word in self.phrase]
            self.phrase, self.pair = [], ""
        if found := _EPOCH_WORD.fullmatch(token):
            self.fields.append(Field(["epoch"], None, fixed=int(found[1])))
        else:
            self.phrase = [*self.phrase, token][-_MOST_WORDS:]
        self.note("W")

    def number(self, at: int) -> None:
        last = self.last
        if last is not None and self._belongs(last, at):
            return
        words = self.phrase
        if not words:
            for enclosing in reversed(self.outer):
                if enclosing:
                    words = enclosing[:]
                    enclosing.clear()
                    break
        last = self.last = Field(self._full_name(words), at, bracket=len(self.outer) > len(self.parents))
        if self.before == "=" and not words:
            last.unit = "="  # (* 1 = 2.5 loss): a result, and no reading
        last.pair, last.parents = self.pair, [" ".join(parent) for parent in self.parents[1:] if parent]
        if self.bar_label is not None:
            last.is_bar, last.label, self.bar_label = True, [] if words else self.bar_label, None
        self.fields.append(last)
        self.phrase, self.pair, self.is_dropped = [], "", False
        self.note("N")

    def _belongs(self, last: Field, at: int) -> bool:
        """Whether a number belongs to the one before it: a total, a mean or a deviation."""
        if self.before == "/" and self.before2 in ("N", "]") and last.total is None:
            last.total = at
            self.note("N")
        elif self.before == "(" and self.before2 == "N" and not self.phrase:
            last.mean = at
            self.note("M")
        elif (self.before == "+" and self.before2 == "N") or self.before == "±" or self.before + self.before2 == "-/":
            self.note("N")
        elif self.phrase in (["of"], ["out", "of"]) and self.before2 in ("N", "W") and last.total is None:
            last.total, self.phrase = at, []  # 10 of 100
            self.note("N")
        else:
            return False
        return True

    def _full_name(self, words: list[str]) -> list[str]:
        if self.parents and words in _VALUE_KEYS:
            words = self.named or self.parents[-1] or words
            self.named = []
        return words[-_MOST_OF_NAME:]

    def mark(self, token: str, *, spaced: bool, more: bool, glued: bool, quoted: bool, then: str) -> None:
        last = self.last
        if last is not None and self.before == "N" and token in ":|\t]),":
            last.leading = True
        if token in "=:":
            self.pair = token if self.phrase else self.pair
        elif token in _ENDS or (token == "-" and spaced and more):
            if token == "," and self.pair and self.before == ":":
                return  # 'train_loss:', '2.5'
            if token == "," and quoted and self.phrase and self.outer and not self.parents:
                self.pair = ":"  # ('loss', 2.5)
                return
            self.as_labels()
            token = ","
        elif token in "([{":
            self._open(token)
        elif token in ")]}":
            self._close(token)
        elif token in (BAR, KERAS_BAR, TIME):
            self._pass(token)
        elif token == "%" and glued and last is not None and self.before != "M":
            last.unit = "%"
        elif token == "." and glued and not spaced and last is not None and then[:1].isdigit():
            last.unit = "ip"
        if token not in _SILENT and not (token == "[" and self.before == "/"):
            self.note(token)

    def _pass(self, token: str) -> None:
        """A bar or a time: the words before it name no number."""
        if token == BAR:
            self.bar_label = self.phrase
            self.labels += [(word, len(self.fields)) for word in self.phrase]
        elif token == KERAS_BAR and self.last is not None and self.last.total is not None:
            self.last.is_keras_bar = True
        elif token == KERAS_BAR:  # val: [███▏]
            self.labels += [(word, len(self.fields)) for words in self.outer for word in words]
            self.outer = [[] for _ in self.outer]
        self.phrase, self.pair = [], ""

    def _open(self, token: str) -> None:
        if token == "{":
            if not self.parents:
                self.labels += [(word, len(self.fields)) for word in self.phrase]
            self.parents = [*self.parents, self.phrase][-_DEEPEST:]
            self.outer.append([])
        else:
            self.outer.append(self.phrase)
        del self.outer[:-_DEEPEST]
        self.phrase, self.pair = [], ""

    def _close(self, token: str) -> None:
        inner = self.phrase
        if inner:
            self.as_labels()
        self.pair = ""
        self.phrase = self.outer.pop() if self.outer else []
        if token == "}" and self.parents:
            self.parents = self.parents[:-1]
            self.phrase = []
            if not self.parents:
                self.named = []
                self.breaks.append(len(self.fields))
        elif not self.phrase and token == "]":
            self.phrase = inner  # [Loss] nan


_NAME_KEYS = [["key"], ["name"], ["metric"], ["tag"], ["title"]]
_SPLIT_KEYS = [[key] for key in ["mode", "split", "phase", "stage", "set", "subset", "dataset"]]
_VALUE_KEYS = [["value"], ["val"], ["scalar"]]


def lex(shape: str) -> Lexed:
    """The fields and labels of a shape; never fails."""
    lexer = _Lexer()
    tokens = list(_tokens(shape.split(GAP)))
    for at, (kind, token, spaced) in enumerate(tokens):
        if not token:
            continue
        glued = at > 0 and tokens[at - 1][0] == "N"
        if kind == "W":
            lexer.word(token, glued=glued and not spaced)
        elif kind == "N":
            lexer.number(int(token))
        else:
            after = tokens[at + 1] if at + 1 < len(tokens) else ("", "", False)
            lexer.mark(
                token,
                spaced=spaced,
                more=after[2],
                glued=glued,
                quoted=tokens[at - 1][1] in _QUOTES,
                then=after[1] if after[0] == "W" else "",
            )
        if len(lexer.fields) > _MOST_FIELDS:
            break
    is_header = bool(lexer.pair) or bool(tokens and tokens[-1][1] == ":")
    if lexer.phrase:
        lexer.as_labels()
    return Lexed(lexer.fields, lexer.labels[:_MOST_LABELS], lexer.breaks, is_header)


def _tokens(texts: list[str]) -> list[tuple[str, str, bool]]:
    """Kind (``W``, ``N`` or ``P``), token, and whether a space stands before it."""
    found: list[tuple[str, str, bool]] = []
    for index, text in enumerate(texts):
        if index:
            found.append(("N", str(index - 1), True))
        spaced = False
        for token in _TOKEN.findall(text):
            if token[0] == " ":
                spaced = True
                continue
            is_word = token[0].isalnum() or token[0] == "_"
            found.append(("W" if is_word else "P", token, spaced or token == "\t"))
            spaced = False
        if spaced:
            found.append(("P", "", True))
    return found

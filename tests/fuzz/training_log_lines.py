"""Lines to fuzz the log reader with: mutations of the formats' cases and of real lines, and random bytes.

Owns the mutations and how a line is fed and timed.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from steepest.training_logs import LogReader
from steepest.training_logs.formats import all_formats

TESTS = Path(__file__).parents[1]
SECONDS_PER_KB = 4e-3
"""A few times what the slowest format takes on a busy machine; a pattern that goes back over a line takes thousands."""

LINES_PER_READER = 500
TRIES = 4
"""A line that seems slow is tried again alone: another process may have had the core."""

MAX_LINE_BYTES = 1 << 18
SPICES = (
    b"loss", b"loss: ", b"loss=", b"nan", b"-inf", b"1e999", b"9" * 60, b"0.", b"{'", b"{", b"}", b"[", b"]", b"\x1b[",
    b"\r", b"\b", b" | ", b"\t", b"Epoch ", b"step ", b"\xff", b"\x00", b"\xe2\x94\x81", b":::MLLOG ", b",", b"/", b"%|",
    b"iteration 1/ 2 |", b"Epoch: [1][ 1/2]", b"Train: 1 [ 1/2 ( 50%)]", b"val_", b'{"metrics": {"loss": 1}, "step": 1}',
    b"[[[[", b"((((", b"a" * 200, b"1" * 200, b" " * 200, b"-" * 100,
)  # fmt: skip


def seeds() -> list[bytes]:
    """Lines to mutate: all cases' lines, and some of each real log if there are any."""
    lines = [
        line[2:].replace("\\t", "\t").replace("\\r", "\r").replace("\\b", "\b").replace("\\e", "\x1b").encode()
        for path in sorted((TESTS / "unit" / "training_logs" / "cases").glob("*.txt"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("> ")
    ]
    data = Path(os.environ.get("STEEPEST_DATA") or TESTS.parents[1] / "shared" / "data")
    for path in sorted((data / "logs").rglob("*.*")):
        if path.is_file():
            lines += path.read_bytes().split(b"\n")[::37][:40]
    return lines


def mutate(line: bytes, chance: random.Random, lines: list[bytes]) -> bytes:
    """One to three changes of a line."""
    for _ in range(chance.randint(1, 3)):
        line = chance.choice(MUTATIONS)(line, chance, lines)
    return line[:MAX_LINE_BYTES].replace(b"\n", b" ")


def _flip(line: bytes, chance: random.Random, _: list[bytes]) -> bytes:
    at = chance.randrange(len(line) + 1)
    return line[:at] + bytes([chance.randrange(256)]) + line[at + 1 :]


def _cut(line: bytes, chance: random.Random, _: list[bytes]) -> bytes:
    start, end = sorted((chance.randrange(len(line) + 1), chance.randrange(len(line) + 1)))
    return line[:start] + line[end:]


def _repeat(line: bytes, chance: random.Random, _: list[bytes]) -> bytes:
    start, end = sorted((chance.randrange(len(line) + 1), chance.randrange(len(line) + 1)))
    times = chance.choice((2, 2, 2, 3, 10, 100)) if chance.random() < 0.99 else 3000
    return line[:start] + line[start:end] * times + line[end:]


def _splice(line: bytes, chance: random.Random, lines: list[bytes]) -> bytes:
    other = chance.choice(lines)
    return line[: chance.randrange(len(line) + 1)] + other[chance.randrange(len(other) + 1) :]


def _spice(line: bytes, chance: random.Random, _: list[bytes]) -> bytes:
    at = chance.randrange(len(line) + 1)
    times = chance.choice((1, 1, 1, 2, 50)) if chance.random() < 0.99 else 2000
    return line[:at] + chance.choice(SPICES) * times + line[at:]


def _noise(_: bytes, chance: random.Random, __: list[bytes]) -> bytes:
    return chance.randbytes(chance.randrange(200))


MUTATIONS: tuple[Callable[[bytes, random.Random, list[bytes]], bytes], ...] = (
    _flip,
    _cut,
    _repeat,
    _splice,
    _spice,
    _spice,
    _noise,
)


def fuzz(count: int, seed: int) -> Iterator[tuple[bytes, float]]:
    """Feeds mutated lines to readers of every format in turn; yields each line and the seconds that it took.

    Raises:
        AssertionError: Reading a line raised; the message has the seed and the line.
    """
    chance = random.Random(seed)
    lines = seeds()
    names = ["auto", "auto", *(one.name for one in all_formats())]
    name, reader = "auto", LogReader()
    for number in range(count):
        if number % LINES_PER_READER == 0:
            name = names[number // LINES_PER_READER % len(names)]
            reader = LogReader(name, explain=number // LINES_PER_READER % 3 == 0)
        line = mutate(chance.choice(lines), chance, lines) + b"\n"
        began = time.perf_counter()
        try:
            reader.feed(line)
        except Exception as error:
            raise AssertionError(f"seed {seed}, line {number}, format {name}: {line[:2000]!r}") from error
        yield line, time.perf_counter() - began


def slowest(line: bytes) -> float:
    """Seconds of processor time that a line takes at best, by the slowest format."""
    worst = 0.0
    for name in ("auto", *(one.name for one in all_formats())):
        times = []
        for _ in range(TRIES):
            reader = LogReader(name, explain=True)
            began = time.process_time()
            reader.feed(line)
            times.append(time.process_time() - began)
        worst = max(worst, min(times))
    return worst

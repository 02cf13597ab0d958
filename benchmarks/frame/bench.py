"""The command line of every benchmark: its sizes, what it does now, and each figure as soon as it is measured.

``python -m benchmarks.NAME`` takes at most a minute and a half on two cores. ``--smallest`` only shows that the benchmark
works, and ``--full`` measures what the documentation quotes. Progress goes to standard error; a figure is one line on
standard output, with ``--json`` one object.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from steepest_lab.sim.estimate import half_width

T = TypeVar("T")

SAY_EVERY_S = 2.0
"""Between two lines about how far a loop is."""

REPOSITORY = Path(__file__).parents[2]
_began = time.monotonic()
_as_json = False


def options(doc: str | None, more: Callable[[argparse.ArgumentParser], object] | None = None, **sizes: Any) -> Any:
    """What the command line asks for.

    Args:
        doc: The benchmark's docstring.
        more: Adds options that are no sizes.
        sizes: Three values of each: the smallest, the default and the full one. A tuple is an option with several values.
    """
    global _as_json  # noqa: PLW0603 - one benchmark a process
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--smallest", dest="size", action="store_const", const=0, help="only show that it works")
    parser.set_defaults(size=1)
    size.add_argument("--full", dest="size", action="store_const", const=2, help="as the documentation says")
    parser.add_argument("--json", action="store_true", help="print a JSON object a figure")
    for name, values in sizes.items():
        one, several = values[1], isinstance(values[1], tuple)
        words = f"[default: {values[1]}; smallest: {values[0]}; full: {values[2]}]"
        kind, number = type(one[0] if several else one), "+" if several else None
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, nargs=number, help=words.replace("%", "%%"))
    if more is not None:
        more(parser)
    asked = parser.parse_args()
    for name, values in sizes.items():
        if getattr(asked, name) is None:
            setattr(asked, name, values[asked.size])
    _as_json = asked.json
    return asked


def doing(what: str) -> None:
    """Say what is done now."""
    print(f"[{time.monotonic() - _began:4.0f} s] {what}", file=sys.stderr, flush=True)


def each(what: str, items: Iterable[T]) -> Iterator[T]:
    """The items, and how far they are."""
    found, said = list(items), -SAY_EVERY_S
    for number, item in enumerate(found, 1):
        if time.monotonic() - said >= SAY_EVERY_S:
            doing(f"{what}: {number} of {len(found)}")
            said = time.monotonic()
        yield item


def figure(name: str, **values: Any) -> None:
    """Print what was measured."""
    if _as_json:
        print(json.dumps({"figure": name, **values}), flush=True)
    else:
        print(f"{name:26} " + "  ".join(f"{key} {_shown(value)}" for key, value in values.items()), flush=True)


def skip(why: str) -> NoReturn:
    """End, because something is missing that the benchmark needs."""
    print(f"skipped: {why}")
    sys.exit()


def data(*needed: str) -> Path:
    """The folder of real data, which must have these files or folders."""
    folder = Path(os.environ.get("STEEPEST_DATA", REPOSITORY.parent / "shared" / "data"))
    if absent := [name for name in needed if not (folder / name).exists()]:
        skip(f"there is no {absent[0]} in {folder}: name the folder that has it in STEEPEST_DATA")
    return folder


def cpu_s(run: Callable[[], object]) -> float:
    """Processor time of one run in seconds, without the garbage of the runs before it."""
    gc.collect()
    began = time.process_time()
    run()
    return time.process_time() - began


def kept(file: Path | None, of: Mapping[str, Any], measure: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What a file holds as measured under exactly these parameters, or what is measured now, which it holds then."""
    of = json.loads(json.dumps(of))
    lines = file.read_text().splitlines() if file is not None and file.exists() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    if known := [row for row in rows if row.get("of") == of]:
        return known[-1]
    row = {"of": of, **measure()}
    if file is not None:
        with file.open("a") as out:
            out.write(json.dumps(row) + "\n")
    return row


def changed(percent: Sequence[float]) -> str:
    """The mean of changes in percent, with half of its 95 % confidence interval where there are several (Student's t)."""
    half = half_width(percent)
    return f"{statistics.fmean(percent):+.1f}" + ("" if half is None else f" ± {half:.1f}")


def between(values: Sequence[float], digits: int = 2) -> dict[str, float]:
    """The median, the least and the greatest."""
    found = {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return {name: round(value, digits) for name, value in found.items()}


def percentiles(ms: Sequence[float], name: str = "") -> dict[str, float]:
    """Median, 99th percentile and maximum, and of how many."""
    cuts = statistics.quantiles(ms, n=100, method="inclusive") if len(ms) > 1 else [float("nan")] * 99
    found = {"p50_ms": cuts[49], "p99_ms": cuts[98], "max_ms": max(ms, default=float("nan")), "n": len(ms)}
    return {f"{name}{key}": round(value, 3) for key, value in found.items()}


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"({', '.join(f'{name} {_shown(one)}' for name, one in value.items())})"
    if isinstance(value, float):
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)

"""Deliberate faults: each patch in ``mutants/`` takes a rule out of the product, and drawn schedules must find that.

::

    python -m tests.faults.mutate                   # all of them: after how many seeds each is found
    python -m tests.faults.mutate --only no-fence   # one
    python -m tests.faults.mutate --page            # and write the table of docs/faults.md

A patch is applied to a copy of the library, which is played in processes of its own. Its first line says what it does.
Before, the unharmed code is played with probes (``probes.py``): a mutant is hunted only with the seeds with which it acts
differently, and is known to do no harm with the others. What was found is kept: as long as the code is the same, a further
call goes on with the mutants that got away, behind the seeds that they were hunted with.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from tests.faults.library_copy import ROOT, Copy

HERE = Path(__file__).parent
MUTANTS = HERE / "mutants"
MOST_SEEDS = 2_000
KEPT = Path("out/faults/mutants.json")
PAGE = ROOT / "docs" / "testing.md"
TABLE = re.compile(r"(?<=<!-- mutants -->\n).*?(?=<!-- end of mutants -->)", re.DOTALL)


class Hunted(msgspec.Struct, frozen=True):
    """What became of one mutant.

    Attributes:
        seeds: With how many it was hunted; where it was found, including the one that found it.
        differs: With how many of them it acts differently.
        what: What that one broke; empty: it got away.
    """

    seeds: int = 0
    differs: int = 0
    what: str = ""


class Kept(msgspec.Struct):
    """What calls before this one have found.

    Attributes:
        code: Digest of the code and the patches that were played.
        first: The first seed.
        mutants: By name.
        reached: Of each seed from the first on, the mutants that act differently with it.
    """

    code: str
    first: int
    mutants: dict[str, Hunted] = {}
    reached: list[list[str]] = []

    def seeds_of(self, mutant: str, begin: int, end: int) -> list[int]:
        """The seeds with which a mutant acts differently, of those from one number to before another, both from 0."""
        return [self.first + at for at in range(begin, end) if mutant in self.reached[at]]


def title(patch: Path) -> str:
    """What a patch does."""
    return patch.read_text().splitlines()[0].removeprefix("# ")


def main(arguments: Sequence[str] | None = None) -> int:
    """Hunt every mutant; fail if one gets away."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS, help="after how many seeds to give a mutant up")
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", default="", help="mutants whose names contain this")
    parser.add_argument("--page", action="store_true", help="write what was found into docs/faults.md")
    given = parser.parse_args(arguments)
    if given.page and given.only:
        parser.error("--page needs all mutants")
    patches = [one for one in sorted(MUTANTS.glob("*.patch")) if given.only in one.name]
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        kept = _kept(copy.digest(), given.first)
        if (more := given.seeds - len(kept.reached)) > 0:
            begin = given.first + len(kept.reached)
            every = sorted(MUTANTS.glob("*.patch"))
            kept.reached += copy.reached(every, range(begin, begin + more), given.processes, _say)
            _keep(kept)
        for patch in patches:
            now = kept.mutants[patch.stem] = hunted(copy, patch, kept, given.seeds, given.processes)
            _keep(kept)
            after = f"found after {now.seeds:>4}" if now.what else f"NOT found in {now.seeds}"
            broke = f" | {now.what[:120]}" if now.what else ""
            _say(f"{patch.stem:<34} {after}, differs in {now.differs}  {title(patch)}{broke}")
    found = {patch: kept.mutants[patch.stem] for patch in patches}
    escaped = sum(not one.what for one in found.values())
    _say(f"{len(patches) - escaped} of {len(patches)} mutants are found within {given.seeds} seeds")
    if given.page:
        PAGE.write_text(TABLE.sub(lambda _: table(found, given.first), PAGE.read_text()))
    return bool(escaped)


def hunted(copy: Copy, patch: Path, kept: Kept, seeds: int, processes: int) -> Hunted:
    """What becomes of a mutant within so many seeds, those included that it was hunted with before."""
    before = kept.mutants.get(patch.stem, Hunted())
    if before.what or before.seeds >= seeds:
        return before
    found = None
    if hunters := kept.seeds_of(patch.stem, before.seeds, seeds):
        copy.patch(patch)
        found = copy.hunt(hunters, processes)
        copy.patch(patch, back=True)
    needed = found[0] - kept.first + 1 if found else seeds
    return Hunted(needed, len(kept.seeds_of(patch.stem, 0, needed)), found[1] if found else "")


def _keep(kept: Kept) -> None:
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    KEPT.write_bytes(msgspec.json.encode(kept))


def _kept(code: str, first: int) -> Kept:
    """What calls before this one have found in this code, from this seed on."""
    try:
        kept = msgspec.json.decode(KEPT.read_bytes(), type=Kept)
    except (OSError, msgspec.DecodeError):
        return Kept(code, first)
    return kept if (kept.code, kept.first) == (code, first) else Kept(code, first)


def table(mutants: Mapping[Path, Hunted], first: int) -> str:
    """After how many seeds each mutant was found, as a part of a page."""
    found = [one.seeds for one in mutants.values() if one.what]
    lines = [f"{len(found)} of {len(mutants)} are found, within {max(found, default=0):,} seeds from {first} on:", ""]
    lines += [
        "| fault of the patch | seeds until it is found | of these, seeds in which it changes a run |",
        "|---|---|---|",
    ]
    lines += [
        f"| {title(patch)} | {'' if one.what else '> '}{one.seeds:,} | {one.differs:,} |"
        for patch, one in mutants.items()
    ]
    return "\n".join([*lines, ""])


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the command's output


if __name__ == "__main__":
    sys.exit(main())

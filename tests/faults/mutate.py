"""Deliberate faults: each patch in ``mutants/`` takes a rule out of the product, and drawn schedules must find that.

::

    python -m tests.faults.mutate                   # all of them: after how many seeds each is found
    python -m tests.faults.mutate --only no-fence   # one
    python -m tests.faults.mutate --page            # and write the table of docs/testing.md

A patch is applied to a copy of the library, which is played in processes of its own. Its first line says what it does.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MUTANTS = HERE / "mutants"
LIBRARY = Path("libs/steepest/src")
MOST_SEEDS = 2_000
PAGE = ROOT / "docs" / "testing.md"
TABLE = re.compile(r"(?<=<!-- mutants -->\n).*?(?=<!-- end of mutants -->)", re.DOTALL)
FOUND = re.compile(r"^seed (\d+): (.*)", re.MULTILINE)


class Copy:
    """A copy of the library and of this package, in which patches are applied and taken back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / LIBRARY, folder / LIBRARY, ignore=ignored)
        shutil.copytree(HERE, folder / "tests" / "faults", ignore=ignored)

    def patch(self, patch: Path, *, back: bool = False) -> None:
        """Apply a patch, or take it back.

        Raises:
            RuntimeError: It does not fit the library any more.
        """
        command = ["patch", "-p1", "--batch", "--silent", *(["--reverse"] if back else []), "-i", str(patch)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{patch.name} does not apply: {done.stdout}{done.stderr}")

    def hunt(self, seeds: int, first: int, processes: int) -> tuple[int, str] | None:
        """The seed that found something, and what; None: none did."""
        command = [sys.executable, "-m", "tests.faults.run", "--no-shrink", "--seeds", str(seeds)]
        command += ["--from", str(first), "--processes", str(processes)]
        env = {**os.environ, "PYTHONPATH": f"{self.folder}:{self.folder / LIBRARY}", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return None
        found = FOUND.search(done.stdout)
        if found is None:
            raise RuntimeError(f"the hunter failed: {done.stdout[-500:]}{done.stderr[-2_000:]}")
        return int(found[1]), found[2]


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
    parser.add_argument("--page", action="store_true", help="write what was found into docs/testing.md")
    given = parser.parse_args(arguments)
    if given.page and given.only:
        parser.error("--page needs all mutants")
    patches = [one for one in sorted(MUTANTS.glob("*.patch")) if given.only in one.name]
    seeds: dict[Path, int | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        for patch in patches:
            copy.patch(patch)
            found = copy.hunt(given.seeds, given.first, given.processes)
            copy.patch(patch, back=True)
            seeds[patch] = found[0] - given.first + 1 if found else None
            after = f"found after {seeds[patch]:>4}" if found else f"NOT found in {given.seeds}"
            _say(f"{patch.stem:<34} {after}  {title(patch)}{' | ' + found[1][:120] if found else ''}")
    escaped = sum(one is None for one in seeds.values())
    _say(f"{len(patches) - escaped} of {len(patches)} mutants are found within {given.seeds} seeds")
    if given.page:
        PAGE.write_text(TABLE.sub(lambda _: table(seeds, given.first, given.seeds), PAGE.read_text()))
    return bool(escaped)


def table(seeds: Mapping[Path, int | None], first: int, most: int) -> str:
    """After how many seeds each mutant was found, as a part of a page."""
    found = sum(one is not None for one in seeds.values())
    lines = [f"{found} of {len(seeds)} are found within {most:,} seeds from {first} on:", ""]
    lines += ["| What the patch does | found after seeds |", "|---|---|"]
    lines += [f"| {title(patch)} | {f'> {most:,}' if one is None else one} |" for patch, one in seeds.items()]
    return "\n".join([*lines, ""])


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the command's output


if __name__ == "__main__":
    sys.exit(main())

"""A copy of the library in which deliberate faults are put and taken out, and what plays it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.faults.probes import probed
from tests.faults.reach import BROKEN

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LIBRARY = Path("libs/steepest/src")
IGNORED = shutil.ignore_patterns("__pycache__")
CHANGED = re.compile(r"^\+\+\+ b/(\S+)", re.MULTILINE)
FOUND = re.compile(r"^seed (\d+): (.*)", re.MULTILINE)


class Copy:
    """A copy of the library and of what plays it, in which patches are applied and taken back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / LIBRARY, folder / LIBRARY, ignore=IGNORED)
        for name in ("faults", "harness"):
            shutil.copytree(HERE.parent / name, folder / "tests" / name, ignore=IGNORED)

    def digest(self) -> str:
        """Of all code and patches."""
        found = hashlib.sha256()
        for path in sorted(path for path in self.folder.rglob("*") if path.suffix in {".py", ".patch"}):
            found.update(path.read_bytes())
        return found.hexdigest()

    def patch(self, patch: Path, *, back: bool = False) -> None:
        """Apply a patch, or take it back.

        Raises:
            RuntimeError: It does not fit the library any more.
        """
        command = ["patch", "-p1", "--batch", "--silent", *(["--reverse"] if back else []), "-i", str(patch)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{patch.name} does not apply: {done.stdout}{done.stderr}")

    def hunt(self, seeds: Sequence[int], processes: int) -> tuple[int, str] | None:
        """The seed that found something, and what; None: none did."""
        these = ["--no-shrink", "--these", ",".join(map(str, seeds)), "--processes", str(processes)]
        hunter = self._started("tests.faults.run", *these, errors=subprocess.STDOUT)
        said, _ = hunter.communicate()
        if hunter.returncode == 0:
            return None
        found = FOUND.search(said)
        if found is None:
            raise RuntimeError(f"the hunter failed: {said[-500:]}")
        return int(found[1]), found[2]

    def reached(
        self, patches: Sequence[Path], seeds: range, processes: int, say: Callable[[str], None]
    ) -> list[list[str]]:
        """Which mutants act differently with each of these seeds: the unharmed code is played, with probes.

        No mutant is hunted with a seed that breaks the unharmed code.

        Raises:
            RuntimeError: The player failed.
        """
        everywhere = self.put_probes(patches)
        command = ["--from", str(seeds.start), "--seeds", str(len(seeds)), "--processes", str(processes)]
        of_seed: dict[int, list[str]] = {}
        with self._started("tests.faults.reach", *command, errors=subprocess.DEVNULL) as player:
            for line in player.stdout or ():
                number, *names = line.split()
                if names[:1] == [BROKEN]:
                    say(f"the unharmed code breaks: seed {line}")
                of_seed[int(number)] = [] if names[:1] == [BROKEN] else [*names, *everywhere]
                if len(of_seed) % 100 == 0:
                    say(f"{len(of_seed)} of {len(seeds)} seeds with probes")
        shutil.copytree(ROOT / LIBRARY, self.folder / LIBRARY, ignore=IGNORED, dirs_exist_ok=True)
        if player.returncode or len(of_seed) < len(seeds):
            raise RuntimeError(f"the player failed after {len(of_seed)} seeds")
        return [of_seed[seed] for seed in seeds]

    def put_probes(self, patches: Sequence[Path]) -> list[str]:
        """Probes of these mutants; the names of those that differ in every run."""
        mutated: dict[Path, dict[str, str]] = {}
        for patch in patches:
            self.patch(patch)
            for name in CHANGED.findall(patch.read_text()):
                mutated.setdefault(self.folder / name, {})[patch.stem] = (self.folder / name).read_text()
            self.patch(patch, back=True)
        everywhere: list[str] = []
        for path, texts in mutated.items():
            module = probed(path.read_text(), texts)
            path.write_text(module.text)
            everywhere += module.everywhere
        return everywhere

    def _started(self, module: str, *arguments: str, errors: int) -> subprocess.Popen[str]:
        env = {**os.environ, "PYTHONPATH": f"{self.folder}:{self.folder / LIBRARY}", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.Popen(command, cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=errors, text=True)

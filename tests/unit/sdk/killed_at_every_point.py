"""Saves a second checkpoint in child after child, each killed just before it touches the disk once more.

Prints one JSON object a child: what the checkpoint folder holds after the kill, which of it is no good checkpoint in
spite of its name, and what a later incarnation restores and leaves there. The tests run it as a process because it forks.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

from steepest_sdk.checkpoints import CheckpointFolder
from steepest_sdk.manifest import CheckpointRefused, verify

TOUCHES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}


def kill_before_touch(number: int) -> None:
    """From now on the touch with this number, counted from 1, is not lived to see."""
    left = number

    def count(event: str, _arguments: object) -> None:
        nonlocal left
        if event in TOUCHES:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def write(folder: Path, step: int) -> None:
    """A state of two files in two folders."""
    folder.joinpath("deep").mkdir()
    folder.joinpath("deep", "a").write_text(str(step))
    folder.joinpath("b").write_text(str(step))


def save_in_child(root: Path, step: int, kill_at: int) -> bool:
    """Whether the child lived to the end of its save."""
    child = os.fork()
    if child == 0:
        kill_before_touch(kill_at)
        CheckpointFolder(root, "walk", incarnation=2).save(step, None, partial(write, step=step))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def main(root: Path, step: int) -> None:
    """Steps 10, 20 and 30 are saved; ``step`` is then saved with a kill before each of its touches in turn."""
    survived, kill_at = False, 0
    while not survived:
        kill_at += 1
        shutil.rmtree(root, ignore_errors=True)
        for earlier in (10, 20, 30):
            CheckpointFolder(root, "walk", 2).save(earlier, None, partial(write, step=earlier))
        survived = save_in_child(root, step, kill_at)
        left = names(root)
        torn = [name for name in left if not name.startswith(".") and not is_good(root / name)]
        later = CheckpointFolder(root, "walk", incarnation=3)
        later.clear_leftovers()
        restored = later.restore("step-99999999-i0002")
        outcome = {
            "left": left,
            "torn": torn,
            "restored": restored and restored.manifest.step,
            "cleared": names(root),
        }
        sys.stdout.write(json.dumps(outcome) + "\n")


def names(folder: Path) -> list[str]:
    """The names in a folder, hidden ones too."""
    return sorted(path.name for path in folder.iterdir())


def is_good(folder: Path) -> bool:
    """Whether a folder matches its manifest."""
    try:
        verify(folder, "walk")
    except CheckpointRefused:
        return False
    return True


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

"""Owns the job's checkpoint folder: save, restore, keep the two newest good. What a good one is, ``manifest`` says.

Two rules hold whenever the process is killed: a name that does not begin with a dot is a whole checkpoint, and the
newest good one is never lost. The names that begin with a dot are ``.<name>.new`` (being written), ``.<name>.old``
(whole, makes way for a new one of the same name) and ``.<name>.gone`` (being deleted).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from steepest_sdk.manifest import MANIFEST, CheckpointRefused, Manifest, Name, digest_of, survey, verify
from steepest_sdk.notes import tell

KEPT = 2
_LEFTOVER = re.compile(r"\.(step-[0-9]+-i[0-9]+)\.(new|old|gone)")


@dataclass(frozen=True)
class Checkpoint:
    """A good checkpoint: where it lies and what it says of itself."""

    folder: Path
    manifest: Manifest


class CheckpointFolder:
    """The checkpoints of one job, as one incarnation sees them.

    Args:
        folder: Shared by all incarnations; made when the first checkpoint is saved.
        job: Checkpoints of another job are refused, and never deleted.
        incarnation: Part of the name of what is saved here.
    """

    def __init__(self, folder: Path, job: str, incarnation: int) -> None:
        self._folder = folder
        self._job = job
        self._incarnation = incarnation
        self._verdicts: dict[Name, bool] = {}

    def restore(self, wanted: str) -> Checkpoint | None:
        """The wanted checkpoint, else the newest good one before it; what is refused is told, with the reason.

        Args:
            wanted: A checkpoint's name. If it is no such name, the newest good one of all is meant.
        """
        limit = Name.parse(wanted)
        candidates = [name for name in self._newest_first() if limit is None or name <= limit]
        if limit not in candidates:
            tell(f"there is no checkpoint {wanted!r} in {self._folder}")
        for name in candidates:
            try:
                manifest = verify(self._folder / str(name), self._job)
            except CheckpointRefused as refused:
                tell(f"the checkpoint {self._folder / str(name)} is refused: {refused}")
            else:
                self._verdicts[name] = True
                return Checkpoint(self._folder / str(name), manifest)
        tell(f"no good checkpoint in {self._folder}: begins at step 0")
        return None

    def save(self, step: int, epochs: int | None, write: Callable[[Path], object]) -> Checkpoint:
        """Saves a checkpoint, whole or not at all, then deletes what is older than the two newest good ones.

        Args:
            step: The last step whose effect the training's state holds.
            epochs: How many epochs are complete, where the script counts by epochs.
            write: Called with an empty folder; whatever it leaves there is the checkpoint.

        Raises:
            Exception: Whatever ``write`` raises, or OSError; or CheckpointRefused if what it wrote cannot be kept.
        """
        name = Name(step=step, incarnation=self._incarnation)
        aside = self._aside(name, "new")
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            write(aside)
            manifest = self._seal(aside, name, epochs)
            self._commit(aside, name)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        self._verdicts[name] = True
        self._prune()
        return Checkpoint(self._folder / str(name), manifest)

    def clear_leftovers(self) -> None:
        """Mends what this and earlier incarnations left half written or half deleted when they were killed."""
        for path in self._entries():
            match = _LEFTOVER.fullmatch(path.name)
            name = Name.parse(match[1]) if match else None
            if match is None or name is None or name.incarnation > self._incarnation:
                continue
            if match[2] == "old" and not (self._folder / str(name)).exists():
                with contextlib.suppress(OSError):
                    path.rename(self._folder / str(name))
            else:
                shutil.rmtree(path, ignore_errors=True)

    def _seal(self, aside: Path, name: Name, epochs: int | None) -> Manifest:
        if (aside / MANIFEST).exists():
            raise CheckpointRefused(f"save() wrote {MANIFEST}, a name that the SDK needs for itself")
        files = survey(aside)
        if not files:
            raise CheckpointRefused("save() wrote no file")
        manifest = Manifest(self._job, name.step, name.incarnation, digest_of(files), files, epochs)
        (aside / MANIFEST).write_bytes(manifest.encode())
        _sync_tree(aside)
        return manifest

    def _commit(self, aside: Path, name: Name) -> None:
        """Renames into place; a checkpoint of the same name, an earlier save of the same step, makes way."""
        target, old = self._folder / str(name), self._aside(name, "old")
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
            target.rename(old)
        aside.rename(target)
        _sync(self._folder)
        shutil.rmtree(old, ignore_errors=True)

    def _prune(self) -> None:
        good = 0
        for name in self._newest_first():
            if good < KEPT:
                good += self._is_good(name)
            elif self._is_ours(name):
                self._delete(name)

    def _is_good(self, name: Name) -> bool:
        """Each checkpoint is read in full at most once by this process; those saved here are known to be good."""
        if name not in self._verdicts:
            self._verdicts[name] = False
            with contextlib.suppress(CheckpointRefused):
                verify(self._folder / str(name), self._job)
                self._verdicts[name] = True
        return self._verdicts[name]

    def _is_ours(self, name: Name) -> bool:
        try:
            return Manifest.decode((self._folder / str(name) / MANIFEST).read_bytes()).job == self._job
        except (OSError, CheckpointRefused):
            return False

    def _delete(self, name: Name) -> None:
        # Renamed first: a process killed while it deletes must not leave a torn checkpoint under a good name.
        gone = self._aside(name, "gone")
        try:
            (self._folder / str(name)).rename(gone)
        except OSError as error:
            tell(f"the old checkpoint {self._folder / str(name)} stays: {error}")
        shutil.rmtree(gone, ignore_errors=True)

    def _newest_first(self) -> list[Name]:
        names = (Name.parse(path.name) for path in self._entries())
        return sorted((name for name in names if name), reverse=True)

    def _entries(self) -> list[Path]:
        try:
            return sorted(self._folder.iterdir())
        except OSError:
            return []

    def _aside(self, name: Name, state: str) -> Path:
        return self._folder / f".{name}.{state}"


def _sync_tree(folder: Path) -> None:
    for path in folder.rglob("*"):
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)

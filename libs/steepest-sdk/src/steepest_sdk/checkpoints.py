"""Owns the job's checkpoint folder: saves, restores, keeps the two newest valid checkpoints. ``manifest`` defines "valid".

A third one is kept if the job's supervisor names it.

Two rules hold even if the process is killed at any time: a name that does not start with a dot is a complete checkpoint,
and the newest valid one is never lost. Names that start with a dot are ``.<name>.new`` (being written), ``.<name>.old``
(complete, being replaced by a new one of the same name) and ``.<name>.gone`` (being deleted).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from steepest_sdk.manifest import MANIFEST, CheckpointName, CheckpointRefused, Manifest, digest_of, survey, verify
from steepest_sdk.notes import warn

KEPT = 2
_LEFTOVER = re.compile(r"\.(step-[0-9]+-i[0-9]+)\.(new|old|gone)")


@dataclass(frozen=True)
class Checkpoint:
    """A valid checkpoint: its folder and its manifest."""

    folder: Path
    manifest: Manifest


class CheckpointFolder:
    """The checkpoints of one job, as one incarnation sees them.

    Args:
        folder: Shared by all incarnations; created when the first checkpoint is saved.
        job: Checkpoints of another job are refused, and never deleted.
        incarnation: Part of the names of the checkpoints that it saves.
    """

    def __init__(self, folder: Path, job: str, incarnation: int) -> None:
        self._folder = folder
        self._job = job
        self._incarnation = incarnation
        self._verdicts: dict[CheckpointName, bool] = {}
        self._restored: CheckpointName | None = None

    def restore(self, wanted: str) -> Checkpoint | None:
        """The wanted checkpoint, otherwise the newest valid one before it; refused ones are reported with the reason.

        Args:
            wanted: A checkpoint's name. If it is not a valid name, the newest valid checkpoint is used.
        """
        limit = CheckpointName.parse(wanted)
        candidates = [name for name in self._newest_first() if limit is None or name <= limit]
        if limit not in candidates:
            warn(f"there is no checkpoint {wanted!r} in {self._folder}")
        for name in candidates:
            try:
                manifest = verify(self._folder / str(name), self._job)
            except CheckpointRefused as refused:
                warn(f"the checkpoint {self._folder / str(name)} is refused: {refused}")
            else:
                self._verdicts[name] = True
                self._restored = name
                return Checkpoint(self._folder / str(name), manifest)
        warn(f"no valid checkpoint in {self._folder}: starting at step 0")
        return None

    def save(self, step: int, epochs: int | None, write: Callable[[Path], object], kept: str = "") -> Checkpoint:
        """Saves a checkpoint atomically, then deletes those that are older than the two newest valid ones.

        Args:
            step: The last step whose effect is in the training's state.
            epochs: Number of complete epochs, if the script counts by epochs.
            write: Called with an empty folder; the files that it writes there are the checkpoint.
            kept: The name of a checkpoint that is not deleted.

        Raises:
            Exception: Any exception of ``write``, OSError, or CheckpointRefused if its files cannot be a checkpoint.
        """
        name = CheckpointName(step=step, incarnation=self._incarnation)
        temporary = self._hidden(name, "new")
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        try:
            write(temporary)
            manifest = self._seal(temporary, name, epochs)
            self._commit(temporary, name)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        self._verdicts[name] = True
        self._prune(kept)
        return Checkpoint(self._folder / str(name), manifest)

    def clear_leftovers(self) -> None:
        """Cleans up what this and earlier incarnations left half written or half deleted when they were killed."""
        for path in self._entries():
            match = _LEFTOVER.fullmatch(path.name)
            name = CheckpointName.parse(match[1]) if match else None
            if match is None or name is None or name.incarnation > self._incarnation:
                continue
            if match[2] == "old" and not (self._folder / str(name)).exists():
                with contextlib.suppress(OSError):
                    path.rename(self._folder / str(name))
            else:
                shutil.rmtree(path, ignore_errors=True)

    def _seal(self, temporary: Path, name: CheckpointName, epochs: int | None) -> Manifest:
        if (temporary / MANIFEST).exists():
            raise CheckpointRefused(f"save() wrote {MANIFEST}, a name that is reserved for the SDK")
        files = survey(temporary)
        if not files:
            raise CheckpointRefused("save() wrote no files")
        manifest = Manifest(self._job, name.step, name.incarnation, digest_of(files), files, epochs)
        (temporary / MANIFEST).write_bytes(manifest.encode())
        _sync_tree(temporary)
        return manifest

    def _commit(self, temporary: Path, name: CheckpointName) -> None:
        """Renames the folder into place; it replaces an earlier save of the same step, which has the same name."""
        target, old = self._folder / str(name), self._hidden(name, "old")
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)
            target.rename(old)
        temporary.rename(target)
        _sync(self._folder)
        shutil.rmtree(old, ignore_errors=True)

    def _prune(self, kept: str) -> None:
        good = 0
        for name in self._newest_first():
            if good < KEPT and not self._is_given_up(name):
                good += self._is_good(name)
            elif str(name) != kept and self._is_ours(name):
                self._delete(name)

    def _is_given_up(self, name: CheckpointName) -> bool:
        """Whether this incarnation began before an earlier one's checkpoint, from which the training is not to go on."""
        return self._restored is not None and self._restored < name and name.incarnation < self._incarnation

    def _is_good(self, name: CheckpointName) -> bool:
        """Whether a checkpoint is valid. This process reads each at most once; its own are known to be valid."""
        if name not in self._verdicts:
            self._verdicts[name] = False
            with contextlib.suppress(CheckpointRefused):
                verify(self._folder / str(name), self._job)
                self._verdicts[name] = True
        return self._verdicts[name]

    def _is_ours(self, name: CheckpointName) -> bool:
        try:
            return Manifest.decode((self._folder / str(name) / MANIFEST).read_bytes()).job == self._job
        except (OSError, CheckpointRefused):
            return False

    def _delete(self, name: CheckpointName) -> None:
        # Rename first: a process that is killed while deleting must not leave an incomplete checkpoint under its name.
        gone = self._hidden(name, "gone")
        try:
            (self._folder / str(name)).rename(gone)
        except OSError as error:
            warn(f"cannot delete the old checkpoint {self._folder / str(name)}: {error}")
        shutil.rmtree(gone, ignore_errors=True)

    def _newest_first(self) -> list[CheckpointName]:
        names = (CheckpointName.parse(path.name) for path in self._entries())
        return sorted((name for name in names if name), reverse=True)

    def _entries(self) -> list[Path]:
        try:
            return sorted(self._folder.iterdir())
        except OSError:
            return []

    def _hidden(self, name: CheckpointName, state: str) -> Path:
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

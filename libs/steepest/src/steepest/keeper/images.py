"""A saved job as a checkpoint on the job's volume: compressed, with a manifest, complete or not there at all.

The folder has ``image.zst``, what CRIU wrote, without its repeats; ``keeper.json``, what a restore must know; and the
manifest of ``docs/control-folder.md``. It holds the job's memory, and so its secrets: only its owner may read it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from steepest.keeper import repeats
from steepest.keeper.processes import CannotBeSaved, because_of
from steepest.keeper.repeats import Extent

FACTS = "keeper.json"
_IMAGE = "image.zst"
_REPLICAS_IMAGE = "image-{}.zst"
_MANIFEST = "manifest.json"
_NAME = re.compile(r"step-([0-9]{8,18})-i([0-9]{4,18})")
_ADDED = "added-"
_KEPT = 2


class Images:
    """The images of one job.

    Args:
        folder: The job's checkpoints.
        job: Its name.
        zstd: How the compressor is called.
        rank: The replica whose processes are saved and restored; each of a gang has a file of its own in an image.
    """

    def __init__(self, folder: Path, job: str, zstd: Sequence[str], rank: int = 0) -> None:
        self._folder = folder
        self._job = job
        self._zstd = zstd
        self._file = _REPLICAS_IMAGE.format(rank) if rank else _IMAGE

    def name(self, step: int, incarnation: int) -> str:
        """The name of a checkpoint."""
        return f"step-{step:08d}-i{incarnation:04d}"

    def clear(self) -> None:
        """Remove what a keeper that was killed has left."""
        for path in self._folder.glob(".*.new"):
            shutil.rmtree(path, ignore_errors=True)

    @contextlib.contextmanager
    def new(self, name: str) -> Iterator[Path]:
        """An empty folder for CRIU's files, next to their later place; what is still there after the block is removed.

        Raises:
            CannotBeSaved: In place of OSError.
        """
        new = self._folder / f".{name}.new"
        shutil.rmtree(new, ignore_errors=True)
        try:
            (new / "raw").mkdir(parents=True)
            yield new / "raw"
        except OSError as error:
            raise because_of(error) from error
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def refuse_without_room(self, needed: int, most: int | None) -> None:
        """Called before a job is stopped.

        Raises:
            CannotBeSaved: ``disk-full``, or ``too-large`` for what its owner allows.
        """
        if most is not None and needed > most:
            raise CannotBeSaved("too-large", f"it has {needed >> 20} MiB of memory, and {most >> 20} may be saved")
        free = shutil.disk_usage(self._folder).free
        if free < needed * 6 // 5:
            raise CannotBeSaved("disk-full", f"it has {needed >> 20} MiB of memory, and {free >> 20} MiB are free")

    def finish(self, raw: Path, step: int, incarnation: int, facts: dict[str, Any]) -> tuple[str, str]:
        """Compress, hash, sync and rename what CRIU has written; return the checkpoint's name and digest.

        Raises:
            OSError, CannotBeSaved: There is no such checkpoint.
        """
        new = raw.parent
        (new / FACTS).write_text(json.dumps({**facts, "extents": self.pack(raw)}), encoding="utf-8")
        names = sorted(path.name for path in new.iterdir() if path.is_file())
        files = {name: {"bytes": (new / name).stat().st_size, "sha256": _sha256(new / name)} for name in names}
        digest = _digest(files)
        manifest = {"job": self._job, "step": step, "incarnation": incarnation, "digest": digest, "files": files}
        (new / _MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
        for path in (*(new / name for name in names), new / _MANIFEST, new):
            _sync(path)
        name = self.name(step, incarnation)
        new.rename(self._folder / name)
        _sync(self._folder)
        for old in self.newest_first()[_KEPT:]:
            self.drop(old)
        return name, digest

    def drop(self, name: str) -> None:
        """Remove an image, and what is noted of it."""
        with contextlib.suppress(OSError):
            (self._folder / name).rename(self._folder / f".{name}.new")
        shutil.rmtree(self._folder / f".{name}.new", ignore_errors=True)
        self._failed(name).unlink(missing_ok=True)

    def newest_first(self) -> list[str]:
        """The images, by their names alone: by incarnation, then by step."""
        found = [name for name in os.listdir(self._folder) if age(name)]  # noqa: PTH208 - names
        return [name for name in sorted(found, key=age, reverse=True) if self.is_image(name)]

    def is_image(self, name: str) -> bool:
        """Whether a checkpoint is an image, and not what the job saved by itself."""
        return (self._folder / name / FACTS).exists()

    def facts(self, name: str, digest: str | None) -> dict[str, Any]:
        """Verify an image; return what was noted with it.

        Args:
            name: Its name.
            digest: What the log says it has; None: an older one, of which only its manifest speaks.

        Raises:
            CannotBeSaved: ``damaged``.
        """
        folder = self._folder / name
        if lacking := [each for each in (_MANIFEST, self._file, FACTS) if not (folder / each).is_file()]:
            raise CannotBeSaved(
                "damaged", f"{lacking[0]} of {name} is missing, or no file"
            )  # a pipe would be waited for
        try:
            manifest = json.loads((folder / _MANIFEST).read_bytes())
            for path in (self._file, FACTS):
                entry = manifest["files"][path]
                if (folder / path).stat().st_size != entry["bytes"] or _sha256(folder / path) != entry["sha256"]:
                    raise CannotBeSaved("damaged", f"{path} of {name} differs from its manifest")
            if manifest["job"] != self._job or (digest is not None and manifest["digest"] != digest):
                raise CannotBeSaved("damaged", f"{name} is not what was saved")
            if _digest(manifest["files"]) != manifest["digest"]:
                raise CannotBeSaved("damaged", f"the manifest of {name} does not match its digest")
            facts: dict[str, Any] = json.loads((folder / FACTS).read_bytes())
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CannotBeSaved("damaged", f"{name} cannot be read: {error}") from error
        return {**facts, "step": manifest["step"]}

    def unpack(self, name: str, extents: dict[str, list[list[Any]]], into: Path) -> None:
        """Write the files of a verified image for CRIU; ``extents``: what ``pack`` has returned.

        Raises:
            CannotBeSaved: ``damaged``.
            OSError: It cannot be unpacked here.
        """
        sources = [extent[1] for of_file in extents.values() for extent in of_file]
        if wrong := [each for each in (*extents, *sources) if os.sep in each]:
            raise CannotBeSaved("damaged", f"{name} holds {wrong[0]!r}")
        with (self._folder / name / self._file).open("rb") as packed:
            command = [*self._zstd, "-q", "-d", "-c"]
            with subprocess.Popen(command, stdin=packed, stdout=subprocess.PIPE) as zstd:
                repeats.receive(extents, _descriptor(zstd.stdout), into)

    def add_files(self, folder: Path, raw: Path) -> None:
        """Put the regular files of a folder into an image; processes that could change them stand still.

        Raises:
            OSError: They were not copied.
        """
        for path in folder.iterdir():
            if path.is_file() and not path.is_symlink():
                shutil.copyfile(path, raw / f"{_ADDED}{path.name}")

    def take_files(self, raw: Path, folder: Path) -> None:
        """Put the files that ``add_files`` has added back into their folder.

        Raises:
            OSError: They were not copied.
        """
        for path in raw.glob(f"{_ADDED}*"):
            shutil.copyfile(path, folder / path.name.removeprefix(_ADDED))

    def failures(self, name: str, incarnation: int, why: str) -> int:
        """Note that an incarnation could not restore an image; return how many could not.

        Raises:
            OSError: It was not noted.
        """
        path = self._failed(name)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{incarnation} {json.dumps(why)}\n")
        return len({line.partition(" ")[0] for line in path.read_text(encoding="utf-8").splitlines()})

    def _failed(self, name: str) -> Path:
        return self._folder / f".{name}.failed"

    def pack(self, raw: Path) -> dict[str, list[Extent]]:
        """Compress what CRIU has written of the replica, and remove it; return the extents of each file.

        Raises:
            OSError: It is not compressed.
            CannotBeSaved: Likewise; ``disk-full``, or ``killed``.
        """
        extents: dict[str, list[Extent]] = {}
        files = sorted(path for path in raw.iterdir() if path.is_file() and not path.is_symlink())
        command = [*self._zstd, "-q", "--fast=1", "-T0", "-c"]
        with (
            (raw.parent / self._file).open("wb") as packed,
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=packed) as zstd,
        ):
            with contextlib.suppress(OSError):  # where memory gets short, it is killed, and not the job
                Path(f"/proc/{zstd.pid}/oom_score_adj").write_text("1000", encoding="ascii")
            with contextlib.suppress(BrokenPipeError):
                extents = repeats.send(files, _descriptor(zstd.stdin))
        if zstd.returncode:
            code = "killed" if zstd.returncode < 0 else "disk-full"
            raise CannotBeSaved(code, f"the compressor ended with {zstd.returncode}")
        shutil.rmtree(raw)
        return extents


def _descriptor(pipe: IO[bytes] | None) -> int:
    return -1 if pipe is None else pipe.fileno()


def age(name: str) -> tuple[int, ...]:
    """Less of an older checkpoint than of a newer one; empty: it is no checkpoint's name."""
    match = _NAME.fullmatch(name)
    return (int(match[2]), int(match[1])) if match else ()


def truncate(sizes: dict[str, int]) -> None:
    """Cut off everything written after the image was made: the job writes it again."""
    for path, size in sizes.items():
        with contextlib.suppress(OSError):
            if os.stat(path).st_size > size:  # noqa: PTH116 - a Path for each would hide what is done
                os.truncate(path, size)


def _digest(files: dict[str, dict[str, Any]]) -> str:
    lines = "".join(f"{name}\t{files[name]['bytes']}\t{files[name]['sha256']}\n" for name in sorted(files))
    return "sha256:" + hashlib.sha256(lines.encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""The programs and libraries that a job has mapped, held with its images: an upgrade of the machine does not change them.

CRIU restores no process whose libraries have changed. A package manager replaces files, so a hard link keeps the one that
was there. It must never hold data: a job that replaces a file of its own means the new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path

from steepest.keeper import kernel, processes

_NAMES = "names.json"


class HeldFiles:
    """What the images of one job need.

    Args:
        folder: A folder for each image. On another file system than a file, it does not hold that file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shown: dict[str, Path] = {}

    def hold(self, pids: Iterable[int], image: str) -> None:
        """Hold what these processes run, for an image.

        Raises:
            OSError: It could not be noted.
        """
        into = self._folder / image
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        names: dict[str, str] = {}
        for path in processes.programs(pids):
            with contextlib.suppress(OSError):
                os.link(self._shown.get(path, path), into / str(len(names)))
                names[path] = str(len(names))
        (into / _NAMES).write_text(json.dumps(names), encoding="utf-8")

    def show(self, image: str) -> None:
        """Mount what an image needs over what has taken its place, for this job alone."""
        with contextlib.suppress(OSError, ValueError):
            for path, name in json.loads((self._folder / image / _NAMES).read_bytes()).items():
                held = self._folder / image / name
                with contextlib.suppress(OSError):
                    if not os.path.samefile(held, path):  # noqa: PTH121 - a Path for each would hide what is done
                        kernel.show_instead(held, path)
                        self._shown[path] = held

    def keep(self, images: Collection[str]) -> None:
        """Hold nothing for other images."""
        for folder in self._folder.glob("*"):
            if folder.name not in images:
                shutil.rmtree(folder, ignore_errors=True)

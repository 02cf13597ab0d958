"""The folders of the machine that an operator lets jobs' containers use.

It owns the rule that a submitter's path never decides what is mounted or read: a job can replace anything in its folders by
a link at any time, also between a check and its use. So the path only selects one of these folders, whose parents no job
can write to. What is below it is resolved where links cannot lead out: in the container, or by ``steepest.untrusted``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from steepest.errors import InputError


class AllowedPath(NamedTuple):
    """A path in an allowed folder.

    Attributes:
        place: Where the path has the folder: its own path, or another that leads there.
        folder: The folder.
        path: The same path in the folder; below it, links are not resolved.
    """

    place: Path
    folder: Path
    path: Path


class Allowed(msgspec.Struct, frozen=True):
    """The folders that jobs may use.

    Attributes:
        folders: Absolute, without links, and none within another.
        hidden: The installation's own folder, which is hidden in every container.
    """

    folders: tuple[Path, ...]
    hidden: Path

    @classmethod
    def named(cls, folders: Iterable[Path], hidden: Path) -> Allowed:
        """The folders that an operator has named. A folder within another one is left out, as jobs could replace it.

        Raises:
            InputError: Jobs could replace the installation's own folder, or would have it.
        """
        hidden = hidden.absolute()
        outer = _outermost(Path(one).resolve() for one in _outermost(Path(one).absolute() for one in folders))
        for folder in outer:
            if folder.is_relative_to(hidden.resolve()):
                raise InputError(f"{folder} is in the installation's own folder", hint="let jobs have another --folder")
            leads = any(above.resolve().is_relative_to(folder) for above in (hidden, *hidden.parents))
            if leads and (hidden.is_symlink() or hidden.parent.resolve() != folder):
                raise InputError(
                    f"jobs may write to {folder}, and so could replace the state folder {hidden} by another one",
                    hint=f"move the state folder out of there or directly into {folder}, or let jobs have another --folder",
                )
        return cls(outer, hidden)

    def find(self, asked: str) -> AllowedPath | None:
        """Where a path leads to or into one of the folders; None: it leads into none. It resolves links, and blocks."""
        path = Path(os.path.normpath(Path(asked).absolute()))
        if "\0" in asked:
            return None
        for place in (*reversed(path.parents), path):
            if (folder := place.resolve()) in self.folders:
                return AllowedPath(place, folder, folder / path.relative_to(place))
        return None


def _outermost(folders: Iterable[Path]) -> tuple[Path, ...]:
    named = list(dict.fromkeys(folders))
    return tuple(one for one in named if not any(one != other and one.is_relative_to(other) for other in named))

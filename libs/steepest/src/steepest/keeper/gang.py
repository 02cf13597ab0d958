"""How the keepers of a gang save all of its replicas or none, and restore all or none.

The replicas have TCP connections among themselves, and each has a keeper and an image of its own. In a save the keeper of
replica 0 leads, over a socket in each other replica's folder: no replica is saved before all of them stand still, and none
continues or ends before all are saved. A connection's two ends are then from one moment, as long as no data arrives.

In a restore no keeper leads. Each one puts files into its replica's folder, and waits for those of the others at two
places. A connection that leaves CRIU's repair mode before its other end exists would be reset, so CRIU waits there for all.
No process continues before all replicas are restored.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from steepest.keeper.criu import RESTORE_S
from steepest.keeper.processes import CannotBeSaved

_SOCKET = "keeper"
_ORPHANED_S = 30.0  # until the stop of a replica comes, after the keeper of replica 0 has ended
_LOOK_S = 0.01
_GONE = "gang: it has ended"


@contextlib.contextmanager
def _address(folder: str) -> Iterator[str]:
    """The socket in a folder, under a name that is short enough for the kernel."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{_SOCKET}"
    finally:
        os.close(descriptor)


def _say(talk: io.BufferedRWPair, content: object) -> None:
    with contextlib.suppress(OSError):  # who has ended does not answer either
        talk.write(json.dumps(content).encode() + b"\n")
        talk.flush()


def _heard(talk: io.BufferedRWPair) -> dict[str, Any]:
    """Read a message from the other end; a refusal if it is gone."""
    with contextlib.suppress(OSError, ValueError):
        said: dict[str, Any] = json.loads(talk.readline())
        return said
    return {"refused": _GONE}


class Followers:
    """The other keepers of a gang, as the keeper of replica 0 leads them. A job that is no gang has none.

    Args:
        folders: The folders of replicas 1, 2, ….
    """

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = folders
        self._talks: list[io.BufferedRWPair] = []

    @contextlib.contextmanager
    def asked(self, do: str, **how: object) -> Iterator[list[dict[str, Any]]]:
        """Let the others do something, at the same time as the block; the list has their answers after it.

        Raises:
            CannotBeSaved: One could not, or is gone.
        """
        said: list[dict[str, Any]] = []
        self._meet()
        for talk in self._talks:
            _say(talk, {"do": do, **how})
        try:
            yield said
        finally:
            said += [_heard(talk) for talk in self._talks]
        for rank, answer in enumerate(said, start=1):
            if refused := answer.get("refused"):
                code, _, why = str(refused).partition(": ")
                raise CannotBeSaved(code, f"replica {rank}: {why}")

    def release(self) -> None:
        """Let the others continue, if they stand still."""
        for talk in self._talks:
            _say(talk, {"do": "continue"})
        self._talks = []

    def _meet(self) -> None:
        for folder in self._folders[len(self._talks) :]:
            try:
                with socket.socket(socket.AF_UNIX) as talk, _address(folder) as address:
                    talk.connect(address)
                    self._talks.append(talk.makefile("rwb"))  # which keeps it open
            except OSError as error:
                why = f"replica {len(self._talks) + 1} has no keeper yet, or has ended"
                raise CannotBeSaved("gang", why) from error


class Leader:
    """The keeper of replica 0, as another one follows it. A job that is no gang has none.

    Args:
        folder: The own replica's folder; None: there is no leader.

    Attributes:
        stands: Whether the leader has stopped the replica.
        has_image: Whether its stop finds it saved: it is not to be passed on.
    """

    def __init__(self, folder: str | None) -> None:
        self.stands = self.has_image = False
        self._server: socket.socket | None = None
        self._talk: tuple[socket.socket, io.BufferedRWPair] | None = None
        self._given_up_at: float | None = None
        if folder is not None:
            self._server = socket.socket(socket.AF_UNIX)
            with _address(folder) as address:
                self._server.bind(address)
            self._server.listen()

    @property
    def heard(self) -> list[int]:
        """Descriptors that become readable when the leader sends a message."""
        heard = self._talk[0] if self._talk is not None else self._server
        return [] if heard is None or self._given_up_at is not None else [heard.fileno()]

    @property
    def is_gone(self) -> bool:
        """Whether it has ended in the middle of a save, and no stop has come since: a gang has no use without it."""
        return self._given_up_at is not None and time.monotonic() >= self._given_up_at

    def listen(self) -> dict[str, Any] | None:
        """Read its next request, once ``heard`` is readable; None if there is none."""
        if self._talk is None:
            if self._server is not None:
                talk, _ = self._server.accept()
                self._talk = talk, talk.makefile("rwb")
            return None
        if "do" in (word := _heard(self._talk[1])):
            return word
        self._talk[0].close()
        self._talk = None
        if self.stands:
            self.has_image, self._given_up_at = True, time.monotonic() + _ORPHANED_S
        return None

    def answer(self, **content: object) -> None:
        """Answer it."""
        if self._talk is not None:
            _say(self._talk[1], content)


class Meeting:
    """Where the keepers of a gang wait for each other while they restore one image.

    Args:
        folders: The replicas' folders; none: the job is no gang, and nothing is waited for.
        rank: The own replica.
        image: The image's name.
    """

    def __init__(self, folders: Sequence[str], rank: int, image: str) -> None:
        self._places = [f"{folder}/{image}" for folder in folders]
        self._rank = rank

    def script(self, into: Path) -> Path | None:
        """A program that CRIU runs, and that waits until CRIU has the connections of all replicas in repair mode."""
        if not self._places:
            return None
        there = [shlex.quote(f"{place}.there") for place in self._places]
        path = into / "meet"
        path.write_text(
            f"""#!/bin/sh
            [ "$CRTOOLS_SCRIPT_ACTION" = post-restore ] || exit 0
            : > {there[self._rank]}
            until [ -e {" -a -e ".join(there)} ]; do
                [ ! -e {shlex.quote(self._places[0])}.failed ] || exit 1
                sleep {_LOOK_S}
            done
            """,
            encoding="utf-8",
        )
        path.chmod(0o700)
        return path

    def wait(self) -> None:
        """Wait until all replicas are restored.

        Raises:
            CannotBeSaved: One of them is not.
        """
        marks = [Path(f"{place}.restored") for place in self._places]
        deadline = time.monotonic() + RESTORE_S
        for mark in marks[self._rank : self._rank + 1]:
            mark.touch()
        while not all(mark.exists() for mark in marks):
            if Path(f"{self._places[0]}.failed").exists() or time.monotonic() >= deadline:
                raise CannotBeSaved("gang", "another replica was not restored in time")
            time.sleep(_LOOK_S)

    def fail(self, why: CannotBeSaved) -> CannotBeSaved:
        """Let no replica be restored from this image; return the reason of the one that failed first."""
        if not self._places:
            return why
        own, first = Path(f"{self._places[self._rank]}.why"), Path(f"{self._places[0]}.failed")
        own.write_text(str(why), encoding="utf-8")
        deadline = time.monotonic() + RESTORE_S
        while not first.parent.exists() and time.monotonic() < deadline:  # replica 0 is about to be started
            time.sleep(_LOOK_S)
        with contextlib.suppress(FileExistsError):
            first.hardlink_to(own)
        code, _, said = first.read_text(encoding="utf-8").partition(": ")
        return CannotBeSaved(code, said)

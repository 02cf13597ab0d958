"""The SDK's side of the control folder, as a keeper speaks it (``docs/control-folder.md``).

A job may write anything there. So a file is read without following a link and without waiting, up to a bound; and one that
is written is a new file.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

_MOST_BYTES = 1 << 16


class HeldImage(NamedTuple):
    """A stopped job whose image is complete: it waits for its stop.

    Attributes:
        until: When it continues by itself, by the monotonic clock.
        rewritten: Whether a file is open for changes in place, so that the image is of no use once the job continues.
    """

    request: str
    until: float
    name: str
    step: int
    digest: str
    rewritten: bool


class Control:
    """The control folder of one incarnation; ``declares``: whether it says the job's mode, as that of replica 0 does."""

    def __init__(self, folder: str, *, declares: bool = True) -> None:
        self._declares = declares
        self._folder = folder
        self._said: dict[str, Any] = {}

    def job_speaks(self) -> bool:
        """Whether the job has declared by itself how it can be saved."""
        found = self._read("hello.json")
        return found is not None and not found.get("kept")

    def declare(self, mode: str, *, reason: str = "", restored: str | None = None, step: int | None = None) -> None:
        """Say how the job can be saved, and once what it was restored from; ``reason``: why it cannot, or what was lost."""
        known = {key: self._said.get(key) for key in ("restored", "restored_step")}
        new = {"restored": restored, "restored_step": step} if restored is not None or step is not None else known
        self._said = {"checkpoint_mode": mode, "kept": True, "reason": reason[:400], **new}
        if self._declares:
            self._write("hello.json", self._said)

    def request(self) -> tuple[str, float] | None:
        """What is asked for, and for how long to hold, in seconds; None: nothing."""
        found = self._read("checkpoint-request.json") or {}
        name, hold_s = found.get("request"), found.get("hold_s")
        if not isinstance(name, str) or isinstance(hold_s, bool) or not isinstance(hold_s, int | float):
            return None
        return (name, float(min(hold_s, 600.0))) if hold_s >= 0 else None

    def is_released(self, request: str) -> bool:
        """Whether a request was taken back."""
        return (self._read("release.json") or {}).get("request") == request

    def answer(self, request: str, **content: object) -> None:
        """Answer a request."""
        self._write("checkpoint-ack.json", {"request": request, **content})

    def tell_place(self, place: dict[str, Any]) -> None:
        """Say what an image of here depends on, which this machine's keepers alone can see where it is another one."""
        self._write("place.json", {**place, "cpu": " ".join(place["cpu"])})

    def lose(self, why: str) -> None:
        """Say that the end of this incarnation is not the job's own."""
        self._write("lost.json", {"reason": why[:400]})

    def own_end(self) -> None:
        """Say that it is."""
        with contextlib.suppress(OSError):
            os.unlink(f"{self._folder}/lost.json")  # noqa: PTH108 - one call

    def _read(self, name: str) -> dict[str, Any] | None:
        with contextlib.suppress(OSError, ValueError, RecursionError):
            descriptor = os.open(f"{self._folder}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    found = json.loads(os.read(descriptor, _MOST_BYTES))
                    return found if isinstance(found, dict) else None
            finally:
                os.close(descriptor)
        return None

    def _write(self, name: str, content: object) -> None:
        with contextlib.suppress(OSError):  # a full disk: the request is not answered in time, and the job runs on
            new = Path(self._folder, f".{name}.keeper")
            new.unlink(missing_ok=True)
            with new.open("x", encoding="utf-8") as file:
                file.write(json.dumps(content))
            new.replace(f"{self._folder}/{name}")

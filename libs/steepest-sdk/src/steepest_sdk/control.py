"""Owns the small files of the control folder: hello, request, acknowledgement, release (``docs/control-folder.md``).

It never decides anything and never raises: the folder belongs to somebody else, and a training goes on without it.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from steepest_sdk.notes import Teller

HOLD_S_MOST = 600.0  # a supervisor that asks and dies must not keep a training waiting for ever
_FILE_BYTES_MOST = 1 << 16
_LOOK_EVERY_S = 0.05


@dataclass(frozen=True)
class Request:
    """A supervisor's wish for a checkpoint, after which the training waits for at most ``hold_s`` seconds."""

    id: str
    hold_s: float


class ControlFolder:
    """The files that a training process and its supervisor exchange.

    Args:
        folder: The control folder of this incarnation.
        clock: Seconds that never go back.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._teller = Teller()
        self._look_again_at = 0.0
        self._seen: tuple[int, int, int] | None = None
        self._answered: str | None = None

    def hello(self, mode: str, restored_step: int | None, restored: str | None) -> None:
        """Says how the job can be checkpointed and what it resumed from."""
        self._put("hello.json", {"checkpoint_mode": mode, "restored_step": restored_step, "restored": restored})

    def new_request(self) -> Request | None:
        """A request that was not returned before, if there is one.

        It may be called at every step: the folder is looked at (one ``stat``) at most once in 50 ms.
        """
        now = self._clock()
        if now < self._look_again_at:
            return None
        self._look_again_at = now + _LOOK_EVERY_S
        path = self._folder / "checkpoint-request.json"
        try:
            status = path.stat()
        except OSError:
            return None
        identity = (status.st_ino, status.st_mtime_ns, status.st_size)
        if identity == self._seen:
            return None
        self._seen = identity
        return self._read_request(path)

    def acknowledge(self, request: Request, name: str, step: int, digest: str) -> bool:
        """Answers that the checkpoint is there; False where the answer could not be written."""
        answer = {"request": request.id, "name": name, "step": step, "digest": digest}
        return self._put("checkpoint-ack.json", answer)

    def refuse(self, request_id: str, why: str) -> None:
        """Answers that there will be no checkpoint, and why."""
        self._put("checkpoint-ack.json", {"request": request_id, "refused": why})

    def released(self, request: Request) -> bool:
        """Whether the supervisor has said that no stop will follow this request."""
        release = self._get(self._folder / "release.json")
        return release is not None and release.get("request") == request.id

    def _read_request(self, path: Path) -> Request | None:
        fields = self._get(path)
        request_id = None if fields is None else fields.get("request")
        if fields is None or not isinstance(request_id, str) or request_id == self._answered:
            return None
        self._answered = request_id
        hold_s = fields.get("hold_s")
        if not isinstance(hold_s, int | float) or isinstance(hold_s, bool) or not 0 <= hold_s < math.inf:
            self.refuse(request_id, f"{path.name}: hold_s is {hold_s!r}; it must be a number of seconds from 0")
            return None
        return Request(request_id, float(min(hold_s, HOLD_S_MOST)))

    def _get(self, path: Path) -> dict[str, object] | None:
        try:
            with path.open("rb") as file:
                fields = json.loads(file.read(_FILE_BYTES_MOST))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            self._teller.once(path.name, f"{path} cannot be read: {error}")
            return None
        if not isinstance(fields, dict):
            self._teller.once(path.name, f"{path} holds no JSON object")
            return None
        return fields

    def _put(self, name: str, fields: dict[str, object]) -> bool:
        aside = self._folder / f".{name}.{os.getpid()}"
        try:
            aside.write_text(json.dumps(fields) + "\n")
            aside.replace(self._folder / name)
        except OSError as error:
            self._teller.once(name, f"cannot write {self._folder / name}: {error}")
            return False
        return True

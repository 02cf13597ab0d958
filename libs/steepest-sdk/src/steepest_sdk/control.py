"""Owns the small files of the control folder: hello, request, acknowledgement, release, keep (``docs/control-folder.md``).

It makes no decisions and never raises: the folder belongs to the supervisor, and a training continues without it.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from steepest_sdk.notes import OnceWarner

HOLD_S_MOST = 600.0  # a supervisor that dies after a request must not block a training without end
_FILE_BYTES_MOST = 1 << 16
_LOOK_EVERY_S = 0.05


@dataclass(frozen=True)
class CheckpointRequest:
    """A supervisor's request for a checkpoint, after which the training waits for at most ``hold_s`` seconds."""

    id: str
    hold_s: float


class ControlFolder:
    """The files that a training process and its supervisor exchange.

    Args:
        folder: The control folder of this incarnation.
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._warner = OnceWarner()
        self._look_again_at = 0.0
        self._seen: tuple[int, int, int] | None = None
        self._answered: str | None = None

    def hello(self, mode: str, restored_step: int | None, restored: str | None) -> None:
        """Announces how the job can be checkpointed and what it resumed from."""
        self._put("hello.json", {"checkpoint_mode": mode, "restored_step": restored_step, "restored": restored})

    def new_request(self) -> CheckpointRequest | None:
        """A request that was not returned before; None if there is none.

        It may be called at every step: it checks the folder (one ``stat``) at most once in 50 ms.
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

    def acknowledge(self, request: CheckpointRequest, name: str, step: int, digest: str) -> bool:
        """Answers that the checkpoint is saved; returns False if the answer could not be written."""
        answer = {"request": request.id, "name": name, "step": step, "digest": digest}
        return self._put("checkpoint-ack.json", answer)

    def refuse(self, request_id: str, why: str) -> None:
        """Answers that there will be no checkpoint, with the reason."""
        self._put("checkpoint-ack.json", {"request": request_id, "refused": why})

    def released(self, request: CheckpointRequest) -> bool:
        """Whether the supervisor has released the training: no stop will follow this request."""
        release = self._get(self._folder / "release.json")
        return release is not None and release.get("request") == request.id

    def kept(self) -> str:
        """The name of the checkpoint that the supervisor may go back to; empty: none in particular."""
        name = (self._get(self._folder / "keep.json") or {}).get("checkpoint")
        return name if isinstance(name, str) else ""

    def _read_request(self, path: Path) -> CheckpointRequest | None:
        fields = self._get(path)
        request_id = None if fields is None else fields.get("request")
        if fields is None or not isinstance(request_id, str) or request_id == self._answered:
            return None
        self._answered = request_id
        hold_s = fields.get("hold_s")
        if not isinstance(hold_s, int | float) or isinstance(hold_s, bool) or not 0 <= hold_s < math.inf:
            self.refuse(request_id, f"{path.name}: hold_s is {hold_s!r}; it must be a number of seconds from 0")
            return None
        return CheckpointRequest(request_id, float(min(hold_s, HOLD_S_MOST)))

    def _get(self, path: Path) -> dict[str, object] | None:
        try:
            with path.open("rb") as file:
                fields = json.loads(file.read(_FILE_BYTES_MOST))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            self._warner.once(path.name, f"{path} cannot be read: {error}")
            return None
        if not isinstance(fields, dict):
            self._warner.once(path.name, f"{path} is not a JSON object")
            return None
        return fields

    def _put(self, name: str, fields: dict[str, object]) -> bool:
        temporary = self._folder / f".{name}.{os.getpid()}"
        try:
            temporary.write_text(json.dumps(fields) + "\n")
            temporary.replace(self._folder / name)
        except OSError as error:
            self._warner.once(name, f"cannot write {self._folder / name}: {error}")
            return False
        return True

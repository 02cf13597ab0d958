"""Owns the actions between two steps: stop, checkpoint, hold. It must never know metrics, loops or the environment.

A safe point is a point at which the training's state is that after a complete step. The supervisor's requests wait for
it. A stop is served before a checkpoint request, because it has a deadline and saves the same checkpoint.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from steepest_sdk.checkpoints import Checkpoint, CheckpointFolder
from steepest_sdk.control import CheckpointRequest, ControlFolder
from steepest_sdk.notes import warn
from steepest_sdk.stop import EXIT_STOPPED, StopSignal

Mode = Literal["on-request", "on-stop", "none"]
_HOLD_LOOK_EVERY_S = 0.05

PERIOD_S = 60.0
"""How often a job of mode *on-request* saves unasked, so that a killed process or a lost node costs it no more than that."""

SAVING_SHARE = 0.01
"""Of the time that saving unasked may take: one that takes two seconds is not repeated for 200 seconds."""


class SafePoints:
    """Serves stop signals and checkpoint requests at the safe points of one training.

    Args:
        mode: The mode that the job has declared in its hello.
        save: Writes the training's state to a folder; None if this process saves nothing.
        checkpoints: The folder for checkpoints.
        control: The source of requests.
        stop: The stop signal.
        proven: Whether a valid checkpoint of the job is known to exist.
        clock: Seconds that only rise.
    """

    def __init__(
        self,
        *,
        mode: Mode,
        save: Callable[[Path], object] | None,
        checkpoints: CheckpointFolder,
        control: ControlFolder,
        stop: StopSignal,
        proven: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mode = mode
        self._save = save
        self._checkpoints = checkpoints
        self._control = control
        self._stop = stop
        self._first_due = mode == "on-stop" and save is not None and not proven
        self._request: CheckpointRequest | None = None
        self._clock = clock
        self._saves_unasked = mode == "on-request" and save is not None
        self._unasked_at = clock() + PERIOD_S
        self._owner = (os.getpid(), threading.get_ident())

    def here(self) -> bool:
        """Whether this thread may be at a safe point: it is the one that started the run, not a forked copy of it."""
        return (os.getpid(), threading.get_ident()) == self._owner

    def wanted(self) -> bool:
        """Whether ``reached`` would do anything now."""
        self._request = self._request or self._control.new_request()
        return self._stop.requested or self._first_due or self._request is not None or self._is_due()

    def _is_due(self) -> bool:
        return self._saves_unasked and self._clock() >= self._unasked_at

    def take_stop_signal(self) -> bool:
        """Handles SIGTERM again, after a framework has installed its own handler.

        Returns:
            Whether a stop was requested before that.
        """
        self._stop.take()
        return self._stop.requested

    def reached(self, step: int, epochs: int | None) -> None:
        """Serves the supervisor's requests, at the end of a step.

        Raises:
            SystemExit: With status 85; the training was asked to stop.
        """
        if self._stop.requested:
            self.save(step, epochs, "on SIGTERM")
            raise SystemExit(EXIT_STOPPED)
        if self._first_due:
            # An on-stop job is only stopped after it has a checkpoint: this save proves that saving works.
            self._first_due = False
            self.save(step, epochs, "at the first report")
        request, self._request = self._request or self._control.new_request(), None
        if request is not None:
            self._serve(request, step, epochs)
        elif self._is_due():
            self.save(step, epochs, "unasked")

    def save(self, step: int, epochs: int | None, when: str) -> Checkpoint | None:
        """Saves a checkpoint; a failure is logged and returns None, because a full disk must not stop a training."""
        if self._save is None:
            return None
        began = self._clock()
        try:
            return self._checkpoints.save(step, epochs, self._save, self._control.kept())
        except Exception as error:  # noqa: BLE001 - the user's save() may raise anything
            warn(f"the checkpoint of step {step} {when} failed: {''.join(traceback.format_exception(error))}")
            return None
        finally:
            ended = self._clock()
            self._unasked_at = ended + max(PERIOD_S, (ended - began) / SAVING_SHARE)

    def _serve(self, request: CheckpointRequest, step: int, epochs: int | None) -> None:
        if self._mode != "on-request":
            self._control.refuse(request.id, f"the checkpoint mode is {self._mode}")
            return
        if self._save is None:
            self._control.refuse(request.id, "replica 0 saves for the job")
            return
        saved = self.save(step, epochs, "on request")
        following: CheckpointRequest | None = request
        while following is not None:
            following = self._answer_and_hold(following, saved)

    def _answer_and_hold(self, request: CheckpointRequest, saved: Checkpoint | None) -> CheckpointRequest | None:
        """Answers, then waits for stop or release, so that no further step is done and lost.

        Returns:
            A newer request, from a supervisor that has abandoned this one.

        Raises:
            SystemExit: With status 85; the stop came, and the checkpoint is already saved.
        """
        if saved is None:
            self._control.refuse(request.id, "saving failed; see standard error")
            return None
        manifest = saved.manifest
        if not self._control.acknowledge(request, saved.folder.name, manifest.step, manifest.digest):
            return None
        deadline = time.monotonic() + request.hold_s
        while True:
            if self._stop.requested:
                raise SystemExit(EXIT_STOPPED)
            following = self._control.new_request()
            if following is not None or self._control.released(request):
                return following
            if time.monotonic() >= deadline:
                warn(f"neither stop nor release came within {request.hold_s:g} s: training continues")
                return None
            time.sleep(_HOLD_LOOK_EVERY_S)

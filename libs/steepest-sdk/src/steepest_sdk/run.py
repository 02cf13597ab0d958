"""Owns the interface of a training script: where to start, how to count, how to report. Outside Steepest it does nothing."""

from __future__ import annotations

import atexit
import operator
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Protocol, SupportsFloat, SupportsIndex

from steepest_sdk import environment
from steepest_sdk.checkpoints import Checkpoint, CheckpointFolder
from steepest_sdk.control import ControlFolder
from steepest_sdk.environment import Environment
from steepest_sdk.gang import Gang
from steepest_sdk.notes import OnceWarner, warn
from steepest_sdk.reports import ReportFile
from steepest_sdk.safe_point import Mode, SafePoints
from steepest_sdk.stop import EXIT_STOPPED, StopSignal

Save = Callable[[Path], object]
Load = Callable[[Path], object]


class Reports(Protocol):
    """A destination of reports, which never raises into a training.

    Attributes:
        total: Number of steps of the whole training; None if it is unknown.
        epochs: Number of its epochs, likewise.
    """

    total: int | None
    epochs: int | None

    def append(self, step: int, epoch: int | None, metrics: Mapping[str, SupportsFloat]) -> None:
        """Adds the metrics of a step."""


class Run:
    """One training, from the step at which it starts or resumes; created by ``start``.

    Attributes:
        step: Number of steps done: 0 at the start, otherwise the step of the restored checkpoint or the last one
            reported. A script that reports nothing, because its losses are read from its output, may set it, so that
            its checkpoints have the same step numbers as its output.
    """

    def __init__(
        self,
        reports: Reports | None = None,
        safe_points: SafePoints | None = None,
        step: int = 0,
        epochs: int | None = None,
        gang: Gang = Gang(),  # noqa: B008 - frozen
    ) -> None:
        self.step = step
        self._gang = gang
        self._epochs = epochs
        self._reports = reports
        self._safe_points = safe_points
        self._current_step: int | None = None
        self._current_epoch: int | None = None
        self._reported = step
        self._counting = threading.Lock()
        self._warner = OnceWarner()

    def steps(self, total: int) -> Iterator[int]:
        """The remaining steps, up to ``total``; a new training starts with 1.

        Each report is a safe point: a checkpoint taken there contains the step reported, and a resumed loop continues
        with the next one. So report at the end of a step.
        """
        self.announce(steps=total)
        try:
            for step in range(self.step + 1, total + 1):
                self._current_step = step
                yield step
        finally:
            self._current_step = None

    def epochs(self, total: int) -> Iterator[int]:
        """The remaining epochs, up to ``total``; a new training starts with 1.

        For a script that can only resume at the start of an epoch: the end of an epoch is the only safe point, however
        often it reports in between.
        """
        self.announce(epochs=total)
        self._epochs = self._epochs or 0
        try:
            for epoch in range(self._epochs + 1, total + 1):
                self._current_epoch = epoch
                yield epoch
                self._epochs = epoch
                if self._serving():
                    self._report_epoch(epoch)
                    self.safe_point()
        finally:
            self._current_epoch = None

    def announce(self, *, steps: int | None = None, epochs: int | None = None) -> None:
        """States how long the whole training is, so that others know how much of it is left.

        ``steps`` and ``epochs`` do this themselves; it is for a script with a loop of its own, and for frameworks. It may
        be called again where the number changes. A number below 1 means that the training has no known end, and counts as
        unknown.
        """
        if self._reports is None or not self._serving():
            return
        if steps is not None:
            self._reports.total = steps if steps > 0 else None
        if epochs is not None:
            self._reports.epochs = epochs if epochs > 0 else None

    @property
    def role(self) -> str:
        """What this process does in its gang, as the job names it; ``worker`` if the job names no roles."""
        return self._gang.role

    @property
    def rank(self) -> int:
        """The index of this process in its gang, from 0; 0 if it trains alone."""
        return self._gang.rank

    @property
    def world_size(self) -> int:
        """Number of processes in the gang; 1 if it trains alone."""
        return self._gang.world_size

    @property
    def peers(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each rank; a process may listen at its own. Empty if it trains alone."""
        return self._gang.peers

    @property
    def is_chief(self) -> bool:
        """Whether this process reports and saves for the job: rank 0 does."""
        return self._gang.rank == 0

    @property
    def epoch(self) -> int:
        """Number of complete epochs; 0 if the script does not count by epochs."""
        return self._epochs or 0

    def report(
        self, step: SupportsIndex | None = None, *, epoch: SupportsIndex | None = None, **metrics: SupportsFloat
    ) -> None:
        """Reports a step, and serves the supervisor's requests if the training may be stopped here.

        In a gang the chief's metrics are the job's: of any other process only the step is reported.

        Args:
            step: From 1, increasing over the whole training; the default is the step of the ``steps`` loop, otherwise
                the last step that any thread has reported plus one.
            epoch: From 1; the default is the epoch of the ``epochs`` loop, if the script is in one.
            metrics: The evaluation functions by name, above all ``loss``: any value that ``float`` accepts. Without
                metrics, the call reports that the step was done.

        Raises:
            SystemExit: With status 85: the process was asked to stop, and its state is saved.
            TypeError: Step or epoch is not a whole number.
            ValueError: Step or epoch is negative.
        """
        self.record(step, epoch=epoch, **metrics)
        if self._current_epoch is None:
            self.safe_point()

    def record(
        self, step: SupportsIndex | None = None, *, epoch: SupportsIndex | None = None, **metrics: SupportsFloat
    ) -> None:
        """Like ``report``, but not a safe point: the step is not complete yet.

        Raises:
            TypeError: Step or epoch is not a whole number.
            ValueError: Step or epoch is negative.
        """
        in_epoch = self._current_epoch if epoch is None else _whole("epoch", epoch)
        number = self._numbered(step)
        self._append_report(number, in_epoch, metrics)
        if self._serving():
            self._advance(number)

    @property
    def wanted(self) -> bool:
        """Whether the supervisor waits for a safe point; for a framework that must prepare one."""
        return self._safe_points is not None and self._serving() and self._safe_points.wanted()

    def safe_point(self) -> None:
        """Serves the supervisor's requests; the state must be that after the last recorded step.

        Raises:
            SystemExit: With status 85: the process was asked to stop, and its state is saved.
        """
        if self._safe_points is not None and self._serving():
            self._safe_points.reached(*self._position())

    def keep_stop_signal(self) -> None:
        """Handles SIGTERM again; for a framework that replaces the SDK's handler with its own.

        Raises:
            SystemExit: With status 85: SIGTERM came while the other handler was active. Nothing is saved, so call this
                before the first step.
        """
        if self._safe_points is not None and self._safe_points.take_stop_signal():
            raise SystemExit(EXIT_STOPPED)

    def checkpoint(self) -> bool:
        """Saves a checkpoint now, as the state after the last reported step; for a script that saves periodically.

        Call it after a step's report: before it, the checkpoint counts as the state before that step, which is repeated.

        Returns:
            Whether one was saved: False outside Steepest, in any thread but the one that called ``start``, and if saving
            failed, which is logged to standard error.
        """
        if self._safe_points is None or not self._serving():
            return False
        return self._safe_points.save(*self._position(), "asked for by the script") is not None

    def _report_epoch(self, epoch: int) -> None:
        """Reports the end of an epoch without reports: a moved job must show by its steps that it trains."""
        step, _ = self._position()
        if step > self._reported:
            self._append_report(self._numbered(step), epoch, {})

    def _append_report(self, step: int, epoch: int | None, metrics: Mapping[str, SupportsFloat]) -> None:
        if self._reports is not None:
            self._reports.append(step, epoch, metrics if self.is_chief else {})

    def _numbered(self, step: SupportsIndex | None) -> int:
        given = self._current_step if step is None else _whole("step", step)
        with self._counting:
            number = max(self.step, self._reported) + 1 if given is None else given
            self._reported = max(self._reported, number)
        return number

    def _advance(self, step: int) -> None:
        if step < self.step:
            self._warner.once("step", f"step {step} was reported after step {self.step}: count over the whole training")
        self.step = max(step, self.step)

    def _serving(self) -> bool:
        return self._safe_points is None or self._safe_points.here()

    def _position(self) -> tuple[int, int | None]:
        """Steps and epochs done, for a checkpoint's name; if no step was ever reported, the epoch is the step."""
        return max(self.step, self._epochs or 0), self._epochs


def start(
    *, save: Save | None = None, load: Load | None = None, mode: Literal["on-request", "on-stop"] = "on-request"
) -> Run:
    """Starts or resumes a training. Call it once, in the main thread, after the model is built.

    Args:
        save: Writes the training's whole state (parameters, optimiser, random state, data order) to the empty folder
            that it gets. Without it the job cannot be moved: its checkpoint mode is *none*.
        load: Reads that state from the folder that it gets, without changing the folder; called by this function if
            there is a checkpoint to restore.
        mode: *on-request*: a checkpoint can be requested, and the training then waits until it is stopped or released;
            *on-stop*: it is only saved on SIGTERM, and once at the first report to prove that saving works.

    Raises:
        ValueError: ``save`` without ``load``, or the other way round; an unknown mode; or, where it is supervised,
            this is not the main thread, which alone may handle SIGTERM.
        Exception: Any exception of ``load``.
    """
    if (save is None) != (load is None):
        raise ValueError("start() needs save and load, or neither: what is saved must be loaded again")
    if mode not in {"on-request", "on-stop"}:
        raise ValueError(f"start(mode={mode!r}): it must be 'on-request' or 'on-stop'")
    try:
        supervised = environment.read(os.environ)
    except ValueError as error:
        warn(f"{error}: this training runs unsupervised")
        return Run()
    return (
        Run(_over_mqtt()) if supervised is None else _attach(supervised, save, load, "none" if save is None else mode)
    )


def _over_mqtt() -> Reports | None:
    """The MQTT reports of an unsupervised training; None if no broker is named."""
    if not os.environ.get("STEEPEST_MQTT"):
        return None
    from steepest_sdk import mqtt  # noqa: PLC0415 - only on a device

    try:
        edge = mqtt.read(os.environ)
        reports = mqtt.begin(edge) if edge else None
    except (ImportError, OSError, ValueError, sqlite3.Error) as error:
        warn(f"reporting over MQTT is off: {error}")
        return None
    if reports is not None:
        atexit.register(reports.close)
    return reports


def _attach(supervised: Environment, save: Save | None, load: Load | None, mode: Mode) -> Run:
    saves = save is not None and supervised.replica == 0
    stop = StopSignal(exit_immediately=not saves)
    checkpoints = CheckpointFolder(supervised.checkpoints, supervised.job, supervised.incarnation)
    if saves:
        checkpoints.clear_leftovers()
    restored = _restore(checkpoints, supervised.restore, load)
    control = ControlFolder(supervised.control)
    safe_points = SafePoints(
        mode=mode,
        save=save if saves else None,
        checkpoints=checkpoints,
        control=control,
        stop=stop,
        proven=restored is not None,
    )
    reports = ReportFile(supervised.control / "reports.jsonl")
    if restored is None:
        control.hello(mode, None, None)
        return Run(reports, safe_points, gang=supervised.gang)
    manifest = restored.manifest
    control.hello(mode, manifest.step, restored.folder.name)
    return Run(reports, safe_points, manifest.step, manifest.epochs, supervised.gang)


def _restore(checkpoints: CheckpointFolder, wanted: str | None, load: Load | None) -> Checkpoint | None:
    if wanted is None:
        return None
    if load is None:
        warn(f"the checkpoint {wanted} is not restored: start() was called without load")
        return None
    restored = checkpoints.restore(wanted)
    if restored is not None:
        load(restored.folder)
    return restored


def _whole(what: str, number: SupportsIndex) -> int:
    whole = operator.index(number)
    if whole < 0:
        raise ValueError(f"report({what}={whole}): it must not be negative")
    return whole

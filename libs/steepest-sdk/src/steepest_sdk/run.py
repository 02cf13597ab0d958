"""Owns what a training script sees: where to begin, how to count, how to report. Outside Steepest all of it is idle."""

from __future__ import annotations

import atexit
import operator
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Protocol, SupportsFloat, SupportsIndex

from steepest_sdk import environment
from steepest_sdk.checkpoints import Checkpoint, CheckpointFolder
from steepest_sdk.control import ControlFolder
from steepest_sdk.environment import Environment
from steepest_sdk.notes import Teller, tell
from steepest_sdk.reports import ReportFile
from steepest_sdk.safe_point import Mode, SafePoints
from steepest_sdk.stop import EXIT_STOPPED, StopSignal

Save = Callable[[Path], object]
Load = Callable[[Path], object]


class Reports(Protocol):
    """What takes reports, and never raises into a training.

    Attributes:
        total: How many steps the training has in all; None: it is not known.
    """

    total: int | None

    def append(self, step: int, epoch: int | None, metrics: Mapping[str, SupportsFloat]) -> None:
        """Takes the metrics of a step."""


class Run:
    """One training, from the step at which it begins or goes on; made by ``start``.

    Attributes:
        step: How many steps are done: 0 at the beginning, else the step of the restored checkpoint or the last
            one reported. A script that reports nothing, because its losses are read from what it prints, may set
            it, so that its checkpoints count in the steps that it prints.
    """

    def __init__(
        self,
        reports: Reports | None = None,
        safe_points: SafePoints | None = None,
        step: int = 0,
        epochs: int | None = None,
    ) -> None:
        self.step = step
        self._epochs = epochs
        self._reports = reports
        self._safe_points = safe_points
        self._current_step: int | None = None
        self._current_epoch: int | None = None
        self._told = step
        self._teller = Teller()

    def steps(self, total: int) -> Iterator[int]:
        """The steps that are left, up to ``total``; the first one of all is 1.

        Each report is a safe point: a checkpoint taken there holds the step reported, and a resumed loop goes on
        with the one after it. So report last in the step.
        """
        if self._reports is not None and self._serving():
            self._reports.total = total
        try:
            for step in range(self.step + 1, total + 1):
                self._current_step = step
                yield step
        finally:
            self._current_step = None

    def epochs(self, total: int) -> Iterator[int]:
        """The epochs that are left, up to ``total``; the first one of all is 1.

        For a script that can only resume at the start of an epoch: the end of each epoch is the only safe point,
        however often it reports in between.
        """
        self._epochs = self._epochs or 0
        try:
            for epoch in range(self._epochs + 1, total + 1):
                self._current_epoch = epoch
                yield epoch
                self._epochs = epoch
                if self._serving():
                    self._tell_epoch(epoch)
                    self.safe_point()
        finally:
            self._current_epoch = None

    @property
    def epoch(self) -> int:
        """How many epochs are complete; 0 where the script does not count by epochs."""
        return self._epochs or 0

    def report(
        self, step: SupportsIndex | None = None, *, epoch: SupportsIndex | None = None, **metrics: SupportsFloat
    ) -> None:
        """Reports a step, and serves what the supervisor asks for if the training may be left here.

        Args:
            step: From 1, rising over the whole training; left out, the step of the ``steps`` loop, else one more
                than the last.
            epoch: From 1; left out, the epoch of the ``epochs`` loop, if the script is in one.
            metrics: The evaluation functions by name, ``loss`` first of all: anything that ``float`` takes. None at
                all says that the step was done.

        Raises:
            SystemExit: With status 85: the process was told to leave, and its state is saved.
            TypeError: Step or epoch is no whole number.
            ValueError: Step or epoch is negative.
        """
        self.record(step, epoch=epoch, **metrics)
        if self._current_epoch is None:
            self.safe_point()

    def record(
        self, step: SupportsIndex | None = None, *, epoch: SupportsIndex | None = None, **metrics: SupportsFloat
    ) -> None:
        """As ``report``, where the training cannot be left: the state is not yet that after a whole step.

        Raises:
            TypeError: Step or epoch is no whole number.
            ValueError: Step or epoch is negative.
        """
        serving = self._serving()
        number = self._numbered(step, counting=serving)
        in_epoch = self._current_epoch if epoch is None else _whole("epoch", epoch)
        self._tell(number, in_epoch, metrics)
        if serving:
            self._advance(number)

    @property
    def wanted(self) -> bool:
        """Whether the supervisor waits for a safe point, for a framework that has to prepare one."""
        return self._safe_points is not None and self._serving() and self._safe_points.wanted()

    def safe_point(self) -> None:
        """Serves what the supervisor asks for; the state is that after the last step recorded.

        Raises:
            SystemExit: With status 85: the process was told to leave, and its state is saved.
        """
        if self._safe_points is not None and self._serving():
            self._safe_points.reached(*self._position())

    def keep_stop_signal(self) -> None:
        """Handles SIGTERM again; for a framework that puts a handler of its own in the SDK's place.

        Raises:
            SystemExit: With status 85: SIGTERM came while the other handler was there. Nothing is saved, so call it
                before the first step.
        """
        if self._safe_points is not None and self._safe_points.take_stop_signal():
            raise SystemExit(EXIT_STOPPED)

    def checkpoint(self) -> bool:
        """Saves a checkpoint now, as the state after the last step reported; for a script that saves now and then.

        Returns:
            Whether one was saved: not outside Steepest, nor where saving failed, which is told on standard error.
        """
        if self._safe_points is None or not self._serving():
            return False
        return self._safe_points.save(*self._position(), "asked for by the script") is not None

    def _tell_epoch(self, epoch: int) -> None:
        """Shows that an epoch was done in which nothing was reported: a job that was moved is seen to train by its steps."""
        step, _ = self._position()
        if step > self._told:
            self._tell(step, epoch, {})

    def _tell(self, step: int, epoch: int | None, metrics: Mapping[str, SupportsFloat]) -> None:
        self._told = max(self._told, step)
        if self._reports is not None:
            self._reports.append(step, epoch, metrics)

    def _numbered(self, step: SupportsIndex | None, *, counting: bool) -> int:
        if step is not None:
            return _whole("step", step)
        if self._current_step is not None:
            return self._current_step
        return self.step + 1 if counting else self.step

    def _advance(self, step: int) -> None:
        if step < self.step:
            self._teller.once("step", f"step {step} was reported after step {self.step}: count over the whole training")
        self.step = max(step, self.step)

    def _serving(self) -> bool:
        return self._safe_points is None or self._safe_points.here()

    def _position(self) -> tuple[int, int | None]:
        """Steps and epochs done, as a checkpoint names them; where no step was ever reported, the epoch is the step."""
        return max(self.step, self._epochs or 0), self._epochs


def start(
    *, save: Save | None = None, load: Load | None = None, mode: Literal["on-request", "on-stop"] = "on-request"
) -> Run:
    """Begins or resumes a training. Call it once, in the main thread, when the model is built.

    Args:
        save: Writes the training's whole state (parameters, optimiser, random state, data order) into the empty
            folder that it gets. Without it the job cannot be moved: its checkpoint mode is *none*.
        load: Reads that state from the folder that it gets, and leaves the folder as it is; called here, if there
            is a checkpoint to restore.
        mode: *on-request*: a checkpoint can be asked for, and the training waits until it is stopped or released;
            *on-stop*: it is only taken on SIGTERM, and once at the first report to prove that saving works.

    Raises:
        ValueError: ``save`` without ``load``, or the other way round; an unknown mode; or, where it is supervised,
            this is not the main thread, which alone may handle SIGTERM.
        Exception: Whatever ``load`` raises.
    """
    if (save is None) != (load is None):
        raise ValueError("start() needs save and load, or neither: what is saved must be loaded again")
    if mode not in {"on-request", "on-stop"}:
        raise ValueError(f"start(mode={mode!r}): it must be 'on-request' or 'on-stop'")
    try:
        supervised = environment.read(os.environ)
    except ValueError as error:
        tell(f"{error}: this training runs unsupervised")
        return Run()
    return (
        Run(_over_mqtt()) if supervised is None else _attach(supervised, save, load, "none" if save is None else mode)
    )


def _over_mqtt() -> Reports | None:
    """Where an unsupervised training's reports go, if a broker is named."""
    if not os.environ.get("STEEPEST_MQTT"):
        return None
    from steepest_sdk import mqtt  # noqa: PLC0415 - only on a device

    try:
        edge = mqtt.read(os.environ)
        reports = mqtt.begin(edge) if edge else None
    except (ImportError, OSError, ValueError, sqlite3.Error) as error:
        tell(f"nothing is reported over MQTT: {error}")
        return None
    if reports is not None:
        atexit.register(reports.close)
    return reports


def _attach(supervised: Environment, save: Save | None, load: Load | None, mode: Mode) -> Run:
    saves = save is not None and supervised.replica == 0
    stop = StopSignal(at_once=not saves)
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
        return Run(reports, safe_points)
    manifest = restored.manifest
    control.hello(mode, manifest.step, restored.folder.name)
    return Run(reports, safe_points, manifest.step, manifest.epochs)


def _restore(checkpoints: CheckpointFolder, wanted: str | None, load: Load | None) -> Checkpoint | None:
    if wanted is None:
        return None
    if load is None:
        tell(f"the checkpoint {wanted} is not restored: start() was given no load")
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

"""A training process without a process: it counts steps, reports, saves and leaves as ``docs/control-folder.md`` says.

It owns one incarnation from its start to its end. It must never know nodes, other incarnations or adapters. Time comes
from a clock, so that a night of training takes as long as the clock likes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import msgspec

from steepest.clock import Clock
from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaSpec
from steepest.errors import RefusedError
from steepest.events.common import CheckpointMode, CheckpointRef

LEFT = 85
"""Exit status of a process that saved and left."""

PROGRAM = "train"
"""The only program that there is."""


HOLD_LOOK_S = 0.05
"""How often a process that waits after its checkpoint looks for what follows; as the SDK does."""


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What a training does; the flags of ``steepest.testing.contract_job``, and how its loss falls.

    Attributes:
        steps: Steps of the whole training; None: it goes on for ever.
        exit_status: The status after the last step.
        save_s: How much longer a save on request takes.
        burn: Compute all the time, instead of waiting.
        silent: Answer no request.
        spoil: Write checkpoints that do not verify.
        flat_after: The step from which on the loss stays; 0 reports no loss.
        crash_at: The step at which the first incarnation fails with status 1; 0 for never.
    """

    mode: CheckpointMode = CheckpointMode.ON_REQUEST
    steps: int | None = None
    exit_status: int = 0
    step_s: float = 0.01
    save_s: float = 0.0
    burn: bool = False
    ignore_term: bool = False
    silent: bool = False
    spoil: bool = False
    flat_after: int = 0
    crash_at: int = 0

    def loss(self, step: int) -> float | None:
        """What is reported at a step: it falls from 1 to 0.1 along a line, and then stays."""
        if not self.flat_after:
            return None
        return 1.0 - 0.9 * min(step, self.flat_after) / self.flat_after


@functools.cache
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--mode", type=CheckpointMode)
    for name, kind in (("--steps", int), ("--flat-after", int), ("--crash-at", int)):
        parser.add_argument(name, type=kind)
    parser.add_argument("--exit", type=int, dest="exit_status")
    for name in ("--step-s", "--save-s"):
        parser.add_argument(name, type=float)
    for name in ("--burn", "--ignore-term", "--silent", "--spoil"):
        parser.add_argument(name, action="store_true", default=None)
    return parser


def program_of(spec: ReplicaSpec) -> Program:
    """What a command does.

    Raises:
        RefusedError: ``no-such-program``.
    """
    name, *arguments = spec.command
    if name != PROGRAM:
        raise RefusedError(f"there is no program {name!r}", code="no-such-program")
    given = {name: value for name, value in vars(_parser().parse_args(arguments)).items() if value is not None}
    return Program(**given)


class Request(msgspec.Struct, frozen=True):
    """A wish for a checkpoint."""

    name: str
    hold_s: float


class Training:
    """One incarnation of one replica.

    Attributes:
        step: The last one reported.
        mode: How it says that it can be checkpointed; None before it has said so.
        phase: Running, exited, or gone where nobody saw the end.
        answers: The checkpoint of each request answered, or why it was refused.
        limit_m: Its CPU cap in millicores.
    """

    def __init__(
        self,
        replica: ReplicaId,
        incarnation: int,
        node: str,
        spec: ReplicaSpec,
        program: Program,
        *,
        restore: CheckpointRef | None,
        volume: list[CheckpointRef],
        folder: Path,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        self.replica = replica
        self.incarnation = incarnation
        self.node = node
        self.spec = spec
        self.program = program
        self.step: int | None = None
        self.restored_step = restore.step if restore else None
        self.mode: CheckpointMode | None = None
        self.phase = ReplicaPhase.RUNNING
        self.exit_status: int | None = None
        self.answers: dict[str, CheckpointRef | str] = {}
        self.limit_m = spec.cpu_limit_m
        folder.mkdir(parents=True, exist_ok=True)
        self.output = folder / "output.log"
        self.reports = folder / "reports.jsonl"
        self._volume = volume
        self._clock = clock
        self._changed = changed
        self._done = restore.step if restore else 0
        self._request: Request | None = None
        self._released: dict[str, None] = {}
        self._stop = False
        self._task = asyncio.ensure_future(self._train())

    # --- what a supervisor does --------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether it may still do anything."""
        return self.phase is ReplicaPhase.RUNNING

    def ask(self, request: Request) -> None:
        """Wish for a checkpoint."""
        if request.name not in self.answers:
            self._request = request

    def release(self, name: str) -> None:
        """Nobody will stop it after that request."""
        self._released[name] = None
        if self._request is not None and self._request.name == name:
            self._request = None

    def terminate(self) -> None:
        """SIGTERM: save and leave."""
        self._stop = not self.program.ignore_term

    def exit(self, status: int) -> None:
        """Leave by itself."""
        self._end(ReplicaPhase.EXITED, status)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(ReplicaPhase.EXITED, -9)

    def lose(self) -> None:
        """End in a way that nobody sees."""
        self._end(ReplicaPhase.GONE, None)

    # --- what it does itself -----------------------------------------------------------------------------------------

    async def _train(self) -> None:
        self.output.write_text(f"begins {self.replica.job} {self.incarnation}\n")
        with self.reports.open("a") as reports:
            self.mode = self.program.mode
            self._changed()
            if self.mode is CheckpointMode.ON_STOP and not self._volume:
                await self._train_a_step(reports)
                self._save()  # the proof that it can
            status = await self._train_to_the_end(reports)
        self._end(ReplicaPhase.EXITED, status)

    async def _train_to_the_end(self, reports: TextIO) -> int:
        while self.program.steps is None or self._done < self.program.steps:
            await self._train_a_step(reports)
            if self._done == self.program.crash_at and self.incarnation == 1:
                return 1
            if not self._stop:
                await self._serve()
            if self._stop:
                return self._leave()
        return self.program.exit_status

    async def _train_a_step(self, reports: TextIO) -> None:
        await self._clock.sleep(self.program.step_s)
        self._done += 1
        self.step = self._done
        loss = self.program.loss(self.step)
        metrics = {} if loss is None else {"loss": loss}
        report = {"step": self.step, "at_ms": self._clock.now_ms(), "metrics": metrics}
        reports.write(json.dumps(report) + "\n")
        reports.flush()
        self._changed()

    async def _serve(self) -> None:
        while (request := self._request) is not None and not self.program.silent:
            self._request = None
            if self.program.mode is not CheckpointMode.ON_REQUEST:
                self._answer(request, "it saves when it is stopped")
                return
            if self.program.save_s:
                await self._clock.sleep(self.program.save_s)
            self._answer(request, self._save())
            await self._hold(request)

    async def _hold(self, request: Request) -> None:
        """Wait for the stop, the release, or a request from a supervisor that has forgotten this one."""
        until = self._clock.monotonic() + request.hold_s
        while not (self._stop or request.name in self._released or self._request):
            if self._clock.monotonic() >= until:
                return
            await self._clock.sleep(min(HOLD_LOOK_S, max(0.0, until - self._clock.monotonic())))

    def _answer(self, request: Request, answer: CheckpointRef | str) -> None:
        self.answers[request.name] = answer
        self._changed()

    def _save(self) -> CheckpointRef | str:
        saved = CheckpointRef(
            f"step-{self._done:08}-i{self.incarnation:04}", self._done, f"sha256:{self.replica.job}-{self._done}"
        )
        if self.program.spoil:
            return "invalid"
        if saved not in self._volume:
            self._volume.append(saved)
        return saved

    def _leave(self) -> int:
        if self.program.mode is not CheckpointMode.NONE:
            self._save()
        return LEFT

    def _end(self, phase: ReplicaPhase, status: int | None) -> None:
        if not self.running:
            return
        self.phase, self.exit_status = phase, status
        if self._task is not asyncio.current_task():
            self._task.cancel()
        self._changed()

    async def aclose(self) -> None:
        """End it, for the test is over."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

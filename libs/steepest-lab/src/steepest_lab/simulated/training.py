"""A simulated incarnation of a replica, from its start to its end: it counts steps, reports, saves and exits.

It owns a process's side of the protocol of ``docs/control-folder.md``. It must never know other incarnations or callers. Its
node (:mod:`steepest_lab.simulated.node`) determines the pace of its steps, and calls :meth:`Training.reach` at the step
that was due.

::

    launching ──► training ──► saving ──► holding ──► training      checkpoint request
                     │  ▲────────────────────┘ release, or the hold is over
                     └──────► saving ──► ended (85)                 SIGTERM
                     └──────► ended                                 its last step
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable

import msgspec

from steepest.cluster.port import ReplicaId, ReplicaPhase, ReplicaSpec
from steepest.events.common import CheckpointMode, CheckpointRef
from steepest_lab.simulated.lockstep import Lockstep
from steepest_lab.simulated.model import Delay, Model
from steepest_lab.simulated.network import Place
from steepest_lab.simulated.node import SimulatedNode
from steepest_lab.simulated.timeline import Timeline, Timer

STEP_TOLERANCE = 1e-9
"""Tolerance for fractions of a step: float sums are not more exact."""

LEFT = 85
"""Exit status of a process that saved and exited."""

PEER_LOST = 1
"""Exit status of a process that cannot do its step because another process of its gang has failed."""


class State(enum.Enum):
    """The state of a process."""

    LAUNCHING = enum.auto()
    TRAINING = enum.auto()
    SAVING = enum.auto()
    HOLDING = enum.auto()
    ENDED = enum.auto()


class Request(msgspec.Struct, frozen=True):
    """A request for a checkpoint."""

    name: str
    hold_s: float


class Witness:
    """Observes trainings; override the methods of interest."""

    def begins(self, training: Training) -> None:
        """The process has started."""

    def reports(self, training: Training, step: int, loss: float | None) -> None:
        """The process reports a step."""

    def changes(self, training: Training) -> None:
        """The training's state has changed in a way that a caller may wait for."""


class Training:
    """One simulated incarnation.

    Attributes:
        state: The state of its process.
        step: The last completed step that is visible outside; None before the first.
        loss: The loss that it reported last.
        mode: Its announced checkpoint mode; None before it has announced one.
        phase: Running, exited, or gone if its exit status is lost.
        answers: For each answered request, the checkpoint or the reason of the refusal.
        limit_m: Its CPU cap in millicores.
        done: Steps completed at ``since_s``, with the fraction of the current one.
        share_m: CPU share in millicores since then.
        pace: Steps per second since then.
        cpu_m_s: CPU used up to then, in millicore-seconds.
        stepped_s: Seconds up to then in which it made steps.
        own_pace: The pace that its node gives it, if its gang does not make it wait.
        own_share_m: The CPU share at that pace.
        gang: The trainings with which it does each step together; None: it trains alone.
        held: The request after whose checkpoint it waits or will wait; None: it does not.
    """

    def __init__(
        self,
        replica: ReplicaId,
        incarnation: int,
        node: SimulatedNode,
        spec: ReplicaSpec,
        model: Model,
        *,
        restore: CheckpointRef | None,
        volume: list[CheckpointRef],
        timeline: Timeline,
        witness: Witness,
        gang: Lockstep | None = None,
    ) -> None:
        self.replica = replica
        self.incarnation = incarnation
        self.spec = spec
        self.model = model
        self.state = State.LAUNCHING
        self.step: int | None = None
        self.loss: float | None = None
        self.restored_step = restore.step if restore else None
        self.mode: CheckpointMode | None = None
        self.phase = ReplicaPhase.RUNNING
        self.exit_status: int | None = None
        self.end_reason = ""
        self.answers: dict[str, CheckpointRef | str] = {}
        self.limit_m = spec.cpu_limit_m
        self.volume = volume
        self.done = float(restore.step) if restore else 0.0
        self._completed = restore.step if restore else 0
        self._due = self._next_due()
        self.since_s = timeline.now_s()
        self.share_m = 0.0
        self.pace = 0.0
        self.own_share_m = 0.0
        self.own_pace = 0.0
        self.gang = gang
        self.cpu_m_s = 0.0
        self.stepped_s = 0.0
        self._node = node
        self._timeline = timeline
        self._witness = witness
        self._request: Request | None = None
        self.held: str | None = None
        self._stop = False
        # A process that saves only when it is stopped saves once before, to prove that it can.
        self._proves_saving = model.mode is CheckpointMode.ON_STOP and not model.spoil and self._saves
        self._watchers: list[Callable[[], bool]] = []
        self._timer: Timer | None = None

    @property
    def node(self) -> str:
        """The name of its node."""
        return self._node.name

    @property
    def runs_on(self) -> SimulatedNode:
        """Its node."""
        return self._node

    @property
    def place(self) -> Place:
        """See ``LockstepMember``."""
        return Place(self._node.name, self.model.serves)

    @property
    def may_leave(self) -> bool:
        """See ``LockstepMember``."""
        return self.model.may_leave

    @property
    def exchanged_mib(self) -> float:
        """See ``LockstepMember``."""
        return self.model.exchanged_mib

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self.phase is ReplicaPhase.RUNNING

    def begin(self) -> None:
        """Start the process: it launches, and then trains."""
        self._witness.begins(self)
        if self.gang is not None:
            self.gang.join(self, self.since_s)
        delay_s = self.model.delay_s(Delay.LAUNCH, self.incarnation)
        if self.restored_step is None:
            self._after(delay_s, self._launched)
        else:
            self._transfer_after(delay_s + self.model.delay_s(Delay.RESTORE, self.incarnation), self._launched)

    def continue_from(self, step: int, mode: CheckpointMode) -> None:
        """Continue a process that was started earlier: it trains from ``step`` on."""
        self.done = float(step)
        self.step = self._completed = step
        self._due = self._next_due()
        self.mode = mode
        if self.gang is not None:
            self.gang.join(self, self.since_s)
        if self.model.steps is not None and step >= self.model.steps:
            self._after(0.0, lambda: self.exit(self.model.exit_status))
        else:
            self._train_on()

    def step_at(self, now_s: float) -> int | None:
        """The last step that it has completed by now, also where it has not reported it; None before its first one."""
        if self.mode is None or self.phase is not ReplicaPhase.RUNNING:
            return self.step
        completed = int(self.done + (now_s - self.since_s) * self.pace + STEP_TOLERANCE)
        return max(self.step or 0, completed) or self.step

    # --- what a supervisor does ----------------------------------------------------------------------------------------

    def watch(self, look: Callable[[], bool]) -> None:
        """Call ``look`` now and after every change, until it returns True."""
        if not look():
            self._watchers.append(look)

    def ask(self, request: Request) -> None:
        """Request a checkpoint; a request that was answered is ignored."""
        if request.name in self.answers:
            return
        self._request = request
        if self.state is State.HOLDING:  # a new request implies that the previous one was abandoned
            self.held = None
            self._next()
        self._node.retime()

    def release(self, name: str) -> None:
        """The training continues after that request instead of being stopped."""
        if self._request is not None and self._request.name == name:
            self._request = None
        if self.held == name:
            self.held = None
            if self.state is State.HOLDING:
                self._train_on()

    def terminate(self) -> None:
        """SIGTERM: save and exit at the end of the step; a training that waits for its gang exits without it."""
        if self.model.ignore_term or not self.running:
            return
        self._stop = True
        waits = self.gang is not None and self.state is State.TRAINING and (not self.pace or not self._saves)
        if self.state is State.HOLDING or waits:
            self._leave()
        else:
            self._node.retime()

    def exit(self, status: int) -> None:
        """Exit without a request."""
        self._finish(ReplicaPhase.EXITED, status)

    def kill(self) -> None:
        """SIGKILL."""
        self._finish(ReplicaPhase.EXITED, -9)

    def lose(self) -> None:
        """End without an exit status, as when its node fails."""
        self.end_reason = "its node failed"
        self._finish(ReplicaPhase.GONE, None)

    # --- what its gang does ------------------------------------------------------------------------------------------

    def set_pace(self, now_s: float, pace: float, share_m: float) -> None:
        """See ``LockstepMember``."""
        self.advance(now_s)
        self.pace, self.share_m = pace, share_m

    def lose_peer(self) -> None:
        """See ``LockstepMember``: it fails, unless it is saving or waits after a checkpoint."""
        if self.state in (State.LAUNCHING, State.TRAINING):
            self.exit(PEER_LOST)

    # --- what its node does --------------------------------------------------------------------------------------------

    def advance(self, now_s: float) -> None:
        """Add the steps trained and the CPU used since ``since_s``."""
        passed_s = now_s - self.since_s
        self.done += passed_s * self.pace
        self.cpu_m_s += passed_s * self.share_m
        self.stepped_s += passed_s if self.pace > 0.0 else 0.0
        self.since_s = now_s

    def target(self) -> float:
        """The next step with an event: a report, the end, a crash, or the current step if a request waits for its end."""
        must_save = self._proves_saving and not self.volume
        if self._stop or must_save or (self._request is not None and not self.model.silent):
            return float(max(self._completed + 1, math.ceil(self.done - STEP_TOLERANCE)))
        return self._due

    def reach(self, step: int) -> None:
        """The target step is completed."""
        self.done = float(step)
        self.step = self._completed = step
        self._due = self._next_due()
        model = self.model
        if step % model.report_every == 0 or step == model.steps:
            self.loss = model.loss(step) if model.loss else None
            self._witness.reports(self, step, self.loss)
        if step == model.crash_at and self.incarnation == 1:
            self.exit(1)
        elif step == model.steps:
            self.exit(model.exit_status)
        elif self._proves_saving and not self.volume:
            self._save_then(self._next)
        else:
            self._next()

    # --- what it does itself -------------------------------------------------------------------------------------------

    def _next_due(self) -> float:
        """The next step that is a report, the end or a crash."""
        model, completed = self.model, self._completed
        due = (completed // model.report_every + 1) * model.report_every
        if model.steps is not None and completed < model.steps < due:
            due = model.steps
        if completed < model.crash_at < due:
            due = model.crash_at
        return float(due)

    def _launched(self) -> None:
        if self.model.launch_status is not None:
            self.exit(self.model.launch_status)
            return
        self.mode = self.model.mode
        if self.model.steps is not None and self.done >= self.model.steps:
            self.exit(self.model.exit_status)
            return
        self._train_on()
        self._changed()

    def _train_on(self) -> None:
        self._cancel_timer()
        self.state = State.TRAINING
        self._node.enter(self)

    def _next(self) -> None:
        """After a step: serve a stop or a request, or continue training."""
        request = self._request
        if self._stop:
            self._leave()
        elif request is not None and not self.model.silent:
            self._request = None
            self._serve(request)
        elif self.state is not State.TRAINING:
            self._train_on()
        self._changed()

    @property
    def _saves(self) -> bool:
        """Whether it saves for its job: replica 0 does."""
        return self.replica.index == 0

    def _serve(self, request: Request) -> None:
        if self.model.mode is not CheckpointMode.ON_REQUEST or not self._saves:
            self.answers[request.name] = "it saves when it is stopped" if self._saves else "replica 0 saves"
            if self.state is not State.TRAINING:
                self._train_on()
            return
        self.held = request.name
        self._save_then(lambda: self._saved_for(request))

    def _saved_for(self, request: Request) -> None:
        self.answers[request.name] = self._save()
        if self._stop:
            self._leave()
        elif self.held != request.name or self._request is not None:
            self.held = None
            self._next()
        else:
            self.state = State.HOLDING
            self._after(request.hold_s, lambda: self.release(request.name))
        self._changed()

    def _leave(self) -> None:
        if not self._saves or self.model.mode is CheckpointMode.NONE or self._is_saved():
            self.exit(LEFT)
        else:
            self._save_then(lambda: self.exit(LEFT))

    def _is_saved(self) -> bool:
        return bool(self.volume) and self.volume[-1].step == int(self.done)

    def _save_then(self, act: Callable[[], None]) -> None:
        """Stop training, save, and then call ``act``."""
        self._node.leave(self)
        self.state = State.SAVING

        def saved() -> None:
            self._save()
            act()

        self._transfer_after(self.model.delay_s(Delay.SAVE, self.incarnation), saved)

    def _save(self) -> CheckpointRef | str:
        if self.model.spoil:
            return "invalid"
        step = int(self.done)
        name = f"step-{step:08}-i{self.incarnation:04}"
        saved = CheckpointRef(name, step, f"sha256:{self.replica.job}-{step}")
        if saved not in self.volume[-1:]:
            self.volume.append(saved)
        return saved

    def _transfer_after(self, delay_s: float, act: Callable[[], None]) -> None:
        """Read or write a checkpoint after a delay, and then call ``act``."""
        mib, rate_mib_s, storage = self.model.checkpoint_mib, self._node.storage_mib_s, self._node.storage
        if storage is None:
            self._after(delay_s + mib / rate_mib_s, act)
            return

        def transfer() -> None:
            self._timer = storage.transfer(mib, rate_mib_s, act)

        self._after(delay_s, transfer)

    def _after(self, delay_s: float, act: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = self._timeline.call_at(self._timeline.now_s() + delay_s, act)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _finish(self, phase: ReplicaPhase, status: int | None) -> None:
        if not self.running:
            return
        self._cancel_timer()
        self._node.leave(self)
        self.state = State.ENDED
        self.phase, self.exit_status = phase, status
        if self.gang is not None:
            self.gang.leave(self, self._timeline.now_s(), failed=status not in (0, LEFT))
        self._changed()

    def _changed(self) -> None:
        if self._watchers:
            watchers, self._watchers = self._watchers, []
            self._watchers += [look for look in watchers if not look()]
        self._witness.changes(self)

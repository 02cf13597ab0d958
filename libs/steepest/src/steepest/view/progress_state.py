"""A job's replicas, progress and CPU limit as a view remembers them, from reports, epochs and plans; plain data.

It owns no rule: :mod:`steepest.view.folds.fold_progress` and :mod:`steepest.view.folds.fold_forecasts` change it,
:mod:`steepest.view.folds.fold_limits` changes the limit; :mod:`steepest.view.progress` says what follows.
"""

from __future__ import annotations

import msgspec

from steepest.events.cluster import GangAhead, GrowthList, RunTimePredicted


class Replica(msgspec.Struct, omit_defaults=True):
    """A replica of a gang's newest incarnation.

    Attributes:
        node: Where it was started.
        role: Its role's index among the job's roles.
        alive: Whether its process runs, as far as the log shows.
        ended: Whether its process definitely runs no more.
        step: The last step that it had reported when it ended; before that, its ``progress`` has it.
        left: Whether a plan stops it, or has stopped it, while the others train on.
    """

    node: str
    role: int = 0
    alive: bool = False
    ended: bool = False
    exit_status: int | None = None
    step: int | None = None
    left: bool = False


class ReplicaCourse(msgspec.Struct, omit_defaults=True):
    """The reports of a replica of the current incarnation.

    Attributes:
        step: The largest step that it reported.
        cpu_ms: CPU time that it has used.
    """

    step: int | None = None
    cpu_ms: int | None = None


class ProgressHistory(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The data from which a job's pace is computed.

    Attributes:
        replicas: The replicas of the current incarnation that have reported, by index.
        chief_steps: Whether the step is the chief's; what was measured by another replica's steps does not continue then.
        first_total: The first total that this incarnation stated.
        by_epochs: Whether the log has only epochs: all steps below are thousandths of an epoch then.
        begun_at: Step and the job's CPU time when this incarnation first reported a step.
        reached: Step and CPU time when it last reported a further step.
        steps: Steps between the first and the last report of the earlier incarnations, summed.
        cpu_ms: CPU time between those reports, in milliseconds.
        epoch_first: Epoch and step where this incarnation was first seen to enter an epoch.
        epoch_last: Likewise where it was seen to enter its newest one.
        epoch_steps: Steps an epoch, as measured in an earlier incarnation.
        recent: Counted time, step and CPU time, as far as it is measured, at reports of the last minutes, the oldest first.
    """

    replicas: dict[int, ReplicaCourse] = {}
    chief_steps: bool = False
    first_total: int | None = None
    by_epochs: bool = False
    begun_at: tuple[int, int] | None = None
    reached: tuple[int, int] | None = None
    steps: int = 0
    cpu_ms: int = 0
    epoch_first: tuple[float, int] | None = None
    epoch_last: tuple[float, int] | None = None
    epoch_steps: float | None = None
    recent: list[tuple[int, int, int | None]] = []


class Progress(msgspec.Struct, kw_only=True, omit_defaults=True):
    """How far a job has come, as its nodes report it.

    All but ``cpu_ms`` is of the current incarnation. Of several replicas, that is what replica 0, the chief, reports; as
    long as the chief reports no step, what the replica with the largest step reports.

    Attributes:
        step: Its largest step; until it reports one, that of the checkpoint from which it resumes. None: unknown.
        total: The steps of the whole training, as the process stated them last. Whether they are to be believed is in
            :func:`steepest.view.progress.total_steps`.
        epoch: The epoch that it is in, as it counts them: from 0 or from 1.
        epochs: The epochs of the whole training, as the process stated them last.
        cpu_ms: CPU time of all incarnations and replicas, without those of which none was measured; None where it was
            measured of none.
        loss: The newest value of its evaluation function.
        seen_counted_ms: When a node last reported progress of this incarnation.
        total_doubted: Whether the totals of this incarnation contradict each other.
        steps_doubted: Whether its steps began again, so that they say nothing of the whole training.
        total_before: What the incarnation before stated, for people; nothing is decided by it.
        history: What the pace is computed from.
    """

    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    epochs: float | None = None
    cpu_ms: int | None = None
    loss: float | None = None
    seen_counted_ms: int | None = None
    total_doubted: bool = False
    steps_doubted: bool = False
    total_before: int | None = None
    history: ProgressHistory = msgspec.field(default_factory=ProgressHistory)


class EpochsSeen(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The epochs of a job, as the traffic from the storage shows them; spans in milliseconds.

    Attributes:
        before: Epochs of the earlier incarnations, the part of each one's last epoch included.
        epochs: Epochs of the current incarnation that are over.
        epoch_ms: Mean length of an epoch of this incarnation; of the one before, until the first is over.
        epoch_bytes: Bytes of the newest epoch.
        ended_ms: When the newest one ended, as the node says where that is plausible; None: none is over yet.
        paused_ms: When the incarnation was suspended; None: it was not.
        load_ms: From the start of this incarnation to its first epoch; None: unknown.
        load_bytes: Bytes read meanwhile; None: unknown.
    """

    before: float = 0.0
    epochs: int = 0
    epoch_ms: float = 0.0
    epoch_bytes: int = 0
    ended_ms: int | None = None
    paused_ms: int | None = None
    load_ms: int | None = None
    load_bytes: int | None = None


class Forecast(msgspec.Struct, frozen=True):
    """The newest prediction of a job's run time, and the pool's counted time at which it was made."""

    predicted: RunTimePredicted
    counted_ms: int


class Limit(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The CPU limit that was planned for an incarnation, and what became of it.

    Attributes:
        plan: The plan that wanted ``cpu_m`` first.
        growth_list: FlowCon's list that the job is in; None: another policy limits it.
        cpu_m: The CPU limit that it is to have, each of its replicas, in millicores; None: none.
        in_force_m: The one that the engine took last.
        in_force_counted_ms: When its outcome stood in the log.
        answered: Whether the engine took the limit or definitely refused it.
        refused: What it answered where it refused, or was unclear.
        unclear: Answers in a row that leave open whether the limit is in force.
        trace: The ``traceparent`` of ``plan``.
    """

    plan: str
    growth_list: GrowthList | None = None
    cpu_m: int | None = None
    in_force_m: int | None = None
    in_force_counted_ms: int = 0
    answered: bool = False
    refused: str = ""
    unclear: int = 0
    not_before_counted_ms: int = 0
    trace: str = ""


class DevicePromise(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is promised to a job with devices. Times are those of records.

    Attributes:
        first_due_ms: When it was due by the first promise; None: it never had one.
        due_ms: When it is due now; None: nothing is promised any more.
        tier: How often it was put off.
        said_ms: When that was said.
        ahead: Those that held devices before it then, each with its end as estimated.
    """

    first_due_ms: int | None
    due_ms: int | None
    fair_end_ms: int
    said_ms: int
    tier: int = 0
    ahead: tuple[GangAhead, ...] = ()


class Trial(msgspec.Struct, frozen=True):
    """What is known of a trial.

    Attributes:
        values: Its value at each rung that it has reached, by the rung's number; None: it was not finite.
        passed: The highest rung from which it may go on; -1: none.
        judged: Its rank at the newest rung where it was judged, in words.
    """

    values: dict[int, float | None] = {}
    passed: int = -1
    judged: str = ""

    @property
    def rung(self) -> int:
        """The highest rung that it has reached; -1: none."""
        return max(self.values, default=-1)

    @property
    def on(self) -> Trial:
        """The same, once it may go on from the rung that it has reached."""
        return msgspec.structs.replace(self, passed=self.rung)

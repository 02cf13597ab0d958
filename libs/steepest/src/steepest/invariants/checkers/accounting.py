"""Checker: every submitted job is accounted for."""

from __future__ import annotations

import enum

import msgspec

from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.invariants.folds import LogFolds
from steepest.invariants.verdict import Checker

NAMED = 5
"""Maximum number of jobs listed by name for each state; ended jobs are only counted."""


class JobStatus(enum.StrEnum):
    """The status of a job at the end of the log."""

    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    SUBMITTED = "submitted"  # not answered yet
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    MOVING = "moving"
    SUSPENDED = "suspended"
    STOPPED = "stopped"  # and the next decision about it is not in the log yet


OVER = (JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.REJECTED)


class Account(msgspec.Struct):
    """One request to run a job."""

    job: str
    submitted: int
    stand: JobStatus = JobStatus.SUBMITTED
    decided: int = -1


class Accounting(Checker):
    """Every submitted job ends, is rejected, or has a known state when the log ends; the summary lists them.

    An account is opened by ``JobSubmitted``, once for each request, and closed by ``JobRejected`` of that request or
    ``JobEnded`` of the job. A breach is a job that ends without having been submitted, one that ends twice with two
    outcomes, and one that is reported as over while a process of it that definitely ran is not proven to have stopped,
    by its own node or by the migrator that stopped it.
    """

    name = "accounting"

    def __init__(self, folds: LogFolds) -> None:
        super().__init__(folds)
        self._accounts: dict[tuple[str, str], Account] = {}
        self._newest: dict[str, Account] = {}

    def before(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.before``: the end of a job is judged by what ran until then."""
        event, offset = received.event, received.offset
        match event:
            case c.JobSubmitted():
                self._submit(event, offset)
            case c.JobRejected():
                self._reject(event, offset)
            case c.JobEnded():
                self._end(event, offset)

    def feed(self, received: Received[c.ClusterEvent]) -> None:
        """See ``Checker.feed``."""
        event = received.event
        account = self._newest.get(getattr(event, "job", ""))
        if account is not None and account.stand not in OVER:
            account.stand = self._stand(event, account)

    def _submit(self, event: c.JobSubmitted, offset: int) -> None:
        account = self._accounts.setdefault((event.job, event.request), Account(event.job, offset))
        current = self._newest.get(event.job)
        if current is None or current.stand in OVER:
            self._newest[event.job] = account

    def _reject(self, event: c.JobRejected, offset: int) -> None:
        account = self._accounts.get((event.job, event.request))
        if account is None:
            self.breach(f"job {event.job} is rejected but was never submitted", offset)
            return
        if account is self._newest.get(event.job):
            self._check_gone(event.job, "rejected", offset)
        account.stand, account.decided = JobStatus.REJECTED, offset

    def _end(self, event: c.JobEnded, offset: int) -> None:
        account, stand = self._newest.get(event.job), JobStatus(event.outcome.value)
        if account is None:
            self.breach(f"job {event.job} ended but was never submitted", offset)
            return
        if account.stand in OVER:
            if account.stand is not stand:
                message = f"job {event.job} was {account.stand.value} and then {stand.value}"
                self.breach(message, account.decided, offset)
            return
        self._check_gone(event.job, stand.value, offset)
        account.stand, account.decided = stand, offset

    def _check_gone(self, job: str, stand: str, offset: int) -> None:
        for process in self._folds.processes.of(job):
            if process.proven:
                message = f"job {job} is {stand} while incarnation {process.incarnation} may run on {process.node}"
                self.breach(message, process.since, offset)

    def _stand(self, event: c.ClusterEvent, account: Account) -> JobStatus:
        """The status of a job that has not ended, after a record about it."""
        processes = self._folds.processes.of(account.job)
        if any(progress.attempt and progress.has_stopped for progress in self._folds.steps.in_flight(account.job)):
            return JobStatus.MOVING
        if processes:
            return JobStatus.RUNNING if any(process.proven for process in processes) else JobStatus.STARTING
        match event:
            case c.JobAdmitted() | c.RetryPlanned():
                return JobStatus.WAITING
            case c.JobSuspended():
                return JobStatus.SUSPENDED
            case (
                c.ReplicaStopped()
                | c.JobStopped()
                | c.StepFailed()
                | c.PlanAbandoned()
                | c.MigrationFailed()
                | c.TransitionFailed()
            ) if account.stand is not JobStatus.SUSPENDED:
                return JobStatus.STOPPED
        return account.stand

    def summary(self) -> str:
        """The number of jobs by status, and the names of those that have not ended."""
        groups: dict[JobStatus, list[str]] = {stand: [] for stand in JobStatus}
        for account in self._accounts.values():
            groups[account.stand].append(account.job)
        return ", ".join(_told(stand, jobs) for stand, jobs in groups.items() if jobs) or "no job was submitted"


def _told(stand: JobStatus, jobs: list[str]) -> str:
    if stand in OVER:
        return f"{len(jobs)} {stand.value}"
    more = f" and {len(jobs) - NAMED} more" if len(jobs) > NAMED else ""
    return f"{len(jobs)} {stand.value} ({', '.join(jobs[:NAMED])}{more})"

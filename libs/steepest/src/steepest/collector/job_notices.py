"""Shows the users of a Kubernetes cluster what is decided about their jobs: by Events and conditions of their Jobs.

It owns which events of the log become one, and by which word. It must never send a request. What happened before the service
started is not shown again.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steepest.cluster.kubernetes.job_events import JobSubject, Notice
from steepest.cluster.kubernetes.kinds.known import JOB, referred
from steepest.cluster.kubernetes.manifest import JobSettings, name_of
from steepest.cluster.kubernetes.users_jobs import USERS_JOB, is_of
from steepest.cluster.port import ReplicaId
from steepest.collector.notice_writer import NoticeWriter
from steepest.describe import one_line, sentence
from steepest.events import cluster as c
from steepest.events.received import Received
from steepest.runtime.effector import Effector, Send
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job

REASONS: Mapping[type[msgspec.Struct], str] = {
    c.PlacementPlanned: "PlacementPlanned",
    c.JobPlaced: "Placed",
    c.MigrationPlanned: "MovePlanned",
    c.MigrationFinished: "Moved",
    c.TransitionPlanned: "TransitionPlanned",
    c.JobSuspended: "Suspended",
    c.TransitionFinished: "TransitionFinished",
    c.LimitsApplied: "Limited",
    c.RetryPlanned: "RetryPlanned",
    c.JobEnded: "Ended",
    c.FindingEnded: "FindingEnded",
}
"""The word of each event that becomes an Event."""

WARNINGS: Mapping[type[msgspec.Struct], str] = {
    c.JobRejected: "Rejected",
    c.StepFailed: "StepFailed",
    c.MigrationFailed: "NotMoved",
    c.TransitionFailed: "TransitionFailed",
    c.PlanAbandoned: "PlanAbandoned",
    c.LimitsRefused: "LimitRefused",
    c.FindingOpened: "FindingOpened",
    c.ReactionPlanned: "ReactionPlanned",
}
"""The same for those that are warnings."""

_ROUTINE = (c.LimitsApplied, c.LimitsRefused, c.FindingOpened, c.FindingEnded)
"""A policy that limits plans for each job at each interval, and a loss may spike without end: the others go first."""


CONDITIONS: Mapping[c.FindingKind, str] = {kind: f"steepest.dev/{kind.value.capitalize()}" for kind in c.FindingKind}
"""The type of the condition that a Job has while there is such a finding."""


def notice_of(event: c.ClusterEvent, at_ms: int) -> Notice | None:
    """What an event of the log, at its time, says to the user of its job; None if it is of no interest there."""
    kind = type(event)
    reason = REASONS.get(kind) or WARNINGS.get(kind)
    if reason is None:
        return None
    has_failed = isinstance(event, c.JobEnded) and event.outcome is c.Outcome.FAILED
    return Notice(reason=reason, message=sentence(event), is_warning=has_failed or kind in WARNINGS, at_ms=at_ms)


def users_job(job: Job, settings: JobSettings) -> JobSubject | None:
    """The object that a user has made, of which a job was submitted; None where it was not, or where the job is over.

    The variable alone proves nothing: the job's name and request must agree that it was submitted for a user's object.
    """
    found = referred(settings.kinds, job.spec.env.get(USERS_JOB, ""))
    if found is None or not is_of(job.name, job.request):
        return None
    if found.namespace and found.namespace not in settings.all_namespaces:
        return None
    return JobSubject(found.name, job.request, found.kind, found.namespace)


class JobNotices(Effector):
    """Follows one pool.

    Args:
        writer: What writes them; it is run by this effector.
        settings: What the installation's Jobs have in common.
    """

    name = "job-notices"

    def __init__(self, writer: NoticeWriter, settings: JobSettings) -> None:
        self._writer = writer
        self._settings = settings
        self._users: dict[str, JobSubject] = {}
        self._found: dict[str, None] = {}

    def caught_up(self, view: ClusterView) -> None:
        """Remember the objects of users: of a job that is over, the view has forgotten which it was."""
        found = ((job.name, users_job(job, self._settings)) for job in view.jobs)
        self._users = {name: users for name, users in found if users is not None}
        self._found = {job.name: None for job in view.jobs if job.findings}

    def observe(self, view: ClusterView, received: Received[c.ClusterEvent], *, accepted: bool) -> None:
        """Note what will be written."""
        event = received.event
        job = view.jobs.get(getattr(event, "job", ""))
        if not accepted or job is None:
            return
        if isinstance(event, c.JobSubmitted) and (users := users_job(job, self._settings)) is not None:
            self._users[job.name] = users
        if (notice := notice_of(event, received.at_ms)) is not None:
            self._writer.put(self._subject(job), notice, may_wait=isinstance(event, _ROUTINE))
        self._show_findings(job, received)
        if isinstance(event, c.JobEnded | c.JobRejected):
            self._users.pop(job.name, None)

    def _show_findings(self, job: Job, received: Received[c.ClusterEvent]) -> None:
        """A finding is a condition until it ends, or the job's process; another object than a Job has no such conditions."""
        subject, event = self._subject(job), received.event
        changes: dict[str, Notice | None] = {}
        if isinstance(event, c.FindingOpened | c.FindingEnded):
            self._found[job.name] = None
            changes[CONDITIONS[event.kind]] = None
            if isinstance(event, c.FindingOpened):
                said = Notice(reason="FindingOpened", message=one_line(event.why), at_ms=received.at_ms)
                changes[CONDITIONS[event.kind]] = said
        elif isinstance(event, c.JobPlaced | c.JobEnded | c.JobRejected) and job.name in self._found:
            del self._found[job.name]
            changes.update(dict.fromkeys(CONDITIONS.values()))
        if changes and subject.kind is JOB:
            self._writer.put_conditions(subject, changes)

    def _subject(self, job: Job) -> JobSubject:
        """The Job of a job; of a gang, that of replica 0."""
        return self._users.get(job.name) or JobSubject(name_of(self._settings, ReplicaId(job.name, 0)), "")

    async def run(self, send: Send) -> None:
        """Write until the end."""
        del send
        await self._writer.run()

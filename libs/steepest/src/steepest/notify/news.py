"""The news of a pool's findings that its targets have not been sent yet.

It compares the view: a finding is open, or it is not; a target was notified of it, or it was not. So what opens and ends
while a target must wait is never sent, and what a process that died had left is found again by the next one. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from steepest.describe import sentence
from steepest.events import cluster as c
from steepest.notify.targets import Target
from steepest.view.state import Job, Phase

WAITING_MOST = 1_000
"""Notes that wait for a target; beyond, the oldest is dropped and counted."""

A_MESSAGE = 20
"""Notes that one message holds; the others are counted in it."""

Key = tuple[str, c.FindingKind]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What one target must be sent about one finding.

    Attributes:
        over: Whether the finding has ended.
        text: A sentence.
    """

    job: str
    incarnation: int
    kind: c.FindingKind
    over: bool
    text: str


class Mailbox:
    """The notes for one target.

    Attributes:
        waiting: What it must be sent, by job and kind.
        dropped: Notes that were dropped since the last message.
    """

    def __init__(self, name: str, target: Target) -> None:
        self.name = name
        self.waiting: dict[Key, Note] = {}
        self.dropped = 0
        self._target = target
        self._sent: dict[Key, bool] = {}

    def look(self, job: Job, why_over: str = "") -> None:
        """Compare what is found of a job with what the target was sent of it."""
        for kind in {**job.findings, **job.notified}:
            key, was_notified = (job.name, kind), self.name in job.notified.get(kind, ())
            if self._sent.get(key, was_notified) is was_notified:
                self._sent.pop(key, None)
            else:
                continue  # a message has gone out, and the log does not say so yet
            found = job.findings.get(kind)
            if found is not None and not was_notified and self._target.wants(job, kind):
                self._put(key, found.incarnation, over=False, text=f"{sentence(found)}{_place(job)}")
            elif found is None and was_notified:
                over = c.FindingEnded(
                    job=job.name, incarnation=job.incarnation, kind=kind, why=why_over or _why_over(job)
                )
                self._put(key, job.incarnation, over=True, text=sentence(over))
            else:
                self.waiting.pop(key, None)
        for key in [key for key in self.waiting if key[0] == job.name]:
            if key[1] not in job.findings and key[1] not in job.notified:
                del self.waiting[key]  # it ended before a message went out

    def _put(self, key: Key, incarnation: int, *, over: bool, text: str) -> None:
        if key not in self.waiting and len(self.waiting) >= WAITING_MOST:
            del self.waiting[next(iter(self.waiting))]
            self.dropped += 1
        self.waiting[key] = Note(job=key[0], incarnation=incarnation, kind=key[1], over=over, text=text)

    def take(self) -> list[Note]:
        """All that waits, for a message. What comes of it must be said: :meth:`sent` or :meth:`not_sent`."""
        notes = list(self.waiting.values())
        self.waiting.clear()
        self._sent |= {(note.job, note.kind): not note.over for note in notes}
        return notes

    def not_sent(self, notes: list[Note]) -> None:
        """The message did not arrive: its notes wait again."""
        for note in notes:
            self._sent.pop((note.job, note.kind), None)
        self.waiting = {**{(note.job, note.kind): note for note in notes}, **self.waiting}

    def sent(self, notes: list[Note]) -> list[c.TargetNotified]:
        """The message arrived: what the log is to say."""
        self.dropped = 0
        return [
            c.TargetNotified(job=note.job, incarnation=note.incarnation, kind=note.kind, to=self.name, over=note.over)
            for note in notes
        ]

    def forget(self, job: str) -> None:
        """The view has forgotten a job: nothing will say that a message about it was sent."""
        self._sent = {key: opened for key, opened in self._sent.items() if key[0] != job}


def message(notes: list[Note], dropped: int, pool: str, links: Mapping[str, str]) -> tuple[str, str]:
    """Title and text of a message about at least one note.

    Args:
        notes: What it is about.
        dropped: How many more there were.
        pool: The pool.
        links: The page of each job that has one.
    """
    shown, more = notes[:A_MESSAGE], dropped + max(0, len(notes) - A_MESSAGE)
    title = shown[0].text if len(shown) + more == 1 else f"{_counted(notes)} in pool {pool}"
    lines = [f"{note.text}\n{links[note.job]}" if note.job in links else note.text for note in shown]
    return title, "\n\n".join([*lines, *([f"and {more} more"] if more else [])])


def _counted(notes: list[Note]) -> str:
    counts = Counter("ended" if note.over else note.kind.value for note in notes)
    return ", ".join(f"{count} {what}" for what, count in counts.items())


def _place(job: Job) -> str:
    return f" (on {', '.join(dict.fromkeys(job.nodes[:4]))})" if job.nodes else ""


def _why_over(job: Job) -> str:
    if job.phase is Phase.ENDED:
        return "the job is over: " + ", ".join(filter(None, (job.outcome, job.stop_reason)))
    return "its process was started again" if job.alive else "its process was stopped"

"""Several jobs by one name: by their names, by patterns of names, by their array, their queue or their node. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from steepest.errors import InputError
from steepest.view.cluster_view import ClusterView
from steepest.view.state import Job


class JobsByName(Protocol):
    """A pool whose jobs are looked up."""

    @property
    def view(self) -> ClusterView:
        """The pool."""

    def job(self, name: str) -> Job:
        """The job of that name.

        Raises:
            InputError: There is none.
        """


class Selection(NamedTuple):
    """What a call names.

    Attributes:
        names: Names, and patterns like ``sweep-*``.
        array: The jobs of this array; empty: of any.
        queue: The jobs of this queue; empty: of any.
        node: The jobs that hold a place on this node; empty: all.
    """

    names: tuple[str, ...]
    array: str = ""
    queue: str = ""
    node: str = ""

    @property
    def single(self) -> str | None:
        """The one job that is named, if it is one."""
        is_one = len(self.names) == 1 and not (is_pattern(self.names[0]) or self.array or self.queue or self.node)
        return self.names[0] if is_one else None


def is_pattern(name: str) -> bool:
    """Whether a word is a pattern of names: no name has such letters."""
    return any(letter in name for letter in "*?[")


def select(pool: JobsByName, selection: Selection, *, over: bool = False) -> Sequence[Job]:
    """The jobs that a call names, each once; of patterns, arrays and queues those that are not over, or with ``over`` those.

    Raises:
        InputError: A name or a pattern names no job.
    """
    found = {job.name: job for job in _named(pool, selection, over=over)}
    chosen = [
        job
        for job in found.values()
        if selection.array in {"", job.spec.array}
        and selection.queue in {"", job.spec.queue}
        and (not selection.node or selection.node in job.nodes)
    ]
    if not chosen:
        raise InputError("no job is meant", code="no-such-job", hint="see `steepest jobs`")
    return chosen


def _named(pool: JobsByName, selection: Selection, *, over: bool) -> Iterator[Job]:
    open_jobs = [job for job in pool.view.jobs if (job.outcome is not None) is over]
    if not selection.names:
        yield from open_jobs
    for name in selection.names:
        if not is_pattern(name):
            yield pool.job(name)
            continue
        matches = [job for job in open_jobs if fnmatch.fnmatchcase(job.name, name)]
        if not matches:
            raise InputError(f"no job matches {name}", code="no-such-job", hint="see `steepest jobs`")
        yield from matches

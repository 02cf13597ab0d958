"""Several jobs in one call: by their names, by patterns of names, by their array, by their queue."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import click

if TYPE_CHECKING:
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.view.state import Job


class Selection(NamedTuple):
    """What a call names.

    Attributes:
        names: Names, and patterns like ``sweep-*``.
        array: The jobs of this array; empty: of any.
        queue: The jobs of this queue; empty: of any.
    """

    names: tuple[str, ...]
    array: str = ""
    queue: str = ""

    @property
    def single(self) -> str | None:
        """The one job that is named, if it is one."""
        is_one = len(self.names) == 1 and not (is_pattern(self.names[0]) or self.array or self.queue)
        return self.names[0] if is_one else None


def selection_options(command: Callable[..., None]) -> Callable[..., None]:
    """``JOBS... --array NAME --queue NAME``, given to the command as ``selection``."""

    @functools.wraps(command)
    def wrapped(*args: Any, jobs: tuple[str, ...], array: str, queue: str, **options: Any) -> None:
        if not (jobs or array or queue):
            raise click.UsageError("name a job, a pattern like 'sweep-*', --array or --queue")
        command(*args, selection=Selection(jobs, array, queue), **options)

    arrays = click.option("--array", default="", metavar="NAME", help="Take the jobs of this array.")
    queues = click.option("--queue", default="", metavar="NAME", help="Take the jobs of this queue.")
    return click.argument("jobs", nargs=-1)(arrays(queues(wrapped)))


def is_pattern(name: str) -> bool:
    """Whether a word is a pattern of names: no name has such letters."""
    return any(letter in name for letter in "*?[")


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_HasName)


def matching(jobs: Iterable[N], pattern: str) -> list[N]:
    """The jobs whose names a pattern matches."""
    return [job for job in jobs if fnmatch.fnmatchcase(job.name, pattern)]


def select(pool: StoredPool, selection: Selection, *, over: bool = False) -> Sequence[Job]:
    """The jobs that a call names, each once; of patterns, arrays and queues those that are not over, or with ``over`` those.

    Raises:
        InputError: A name or a pattern names no job.
    """
    from steepest.errors import InputError

    found = {job.name: job for job in _named(pool, selection, over=over)}
    chosen = [
        job
        for job in found.values()
        if selection.array in {"", job.spec.array} and selection.queue in {"", job.spec.queue}
    ]
    if not chosen:
        raise InputError("no job is meant", code="no-such-job", hint="see `steepest jobs`")
    return chosen


def _named(pool: StoredPool, selection: Selection, *, over: bool) -> Iterator[Job]:
    from steepest.errors import InputError

    open_jobs = [job for job in pool.view.jobs if (job.outcome is not None) is over]
    if not selection.names:
        yield from open_jobs
    for name in selection.names:
        if not is_pattern(name):
            yield pool.job(name)
            continue
        matches = matching(open_jobs, name)
        if not matches:
            raise InputError(f"no job matches {name}", code="no-such-job", hint="see `steepest jobs`")
        yield from matches

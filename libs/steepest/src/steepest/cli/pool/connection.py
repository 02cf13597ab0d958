"""An installation in Python: what ``steepest.connect()`` gives, with the words of the command line.

It owns how a program names an installation, and that its calls work in a notebook, where a loop runs already.
"""

from __future__ import annotations

import asyncio
import os
import time
from array import array
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from steepest.app.settings.amounts import CPU, GPUS, MEMORY, SPAN, Quantity
from steepest.app.settings.reading import read_settings
from steepest.errors import InputError

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.events.received import Received
    from steepest.view.cluster_view import ClusterView

T = TypeVar("T")

Row = dict[str, Any]
"""A job's fields, as `steepest jobs --json` has them."""

LOOK_S = 0.5

_AMOUNTS: dict[str, Quantity] = {"cpu": CPU, "memory": MEMORY, "gpus": GPUS, "deadline": SPAN, "time": SPAN}


class JobCurve(NamedTuple):
    """The course of a job's loss: an element each interval with reports. NumPy and pandas take the arrays as they are.

    Attributes:
        at_ms: When the mean was known, in milliseconds since 1970.
        loss: The mean.
        step: The job's step then; -1: unknown.
        cpu_ms: The job's CPU time until then; -1: unknown.
    """

    at_ms: array[int]
    loss: array[float]
    step: array[int]
    cpu_ms: array[int]


class Connection:
    """An installation: a state folder of this machine, or a gateway."""

    def __init__(self, where: str | os.PathLike[str] | None, token: str, pool: str | None) -> None:
        """See :func:`steepest.connect`; nothing is opened yet."""
        is_address = where is not None and str(where).startswith(("http://", "https://", "kube:"))
        place = {"client.server" if is_address else "state_dir": where}
        self._settings = read_settings({**place, "pool": pool, "client.token": token or None})
        if not self._settings.client.server:
            self._settings.folder.read()

    def submit(self, command: Sequence[str], *, name: str | None = None, **options: Any) -> str:
        """Submit a job.

        Args:
            command: Program and arguments.
            name: Its name; None: the program's, and four letters.
            options: As `steepest submit --help` names them: ``cpu=2``, ``gpus=1``, ``memory="8Gi"``, ``time="4h"``,
                ``env={"SEED": "7"}``, ``replicas=2``, ``after=["first"]``.

        Returns:
            The job's name.

        Raises:
            InputError, GatewayError: It is refused; the message says why.
        """
        from steepest.cli.commands.submit import ask, in_pool_of, usual_cpu
        from steepest.cli.jobs.job_names import name_for
        from steepest.cli.jobs.job_options import with_cpu

        spec = _spec(command, options)
        if "cpu" not in options:
            spec = with_cpu(spec, usual_cpu(self._settings, spec))
        named = name or name_for(spec.command)
        answer: Any
        if self._settings.client.server:
            from steepest.cli.pool.remote import client_of

            with client_of(self._settings) as gateway:
                answer = msgspec.to_builtins(gateway.submit(named, spec, pool=self._settings.pool))
        else:
            settings = in_pool_of(self._settings, spec)
            (answer,) = _run(ask(settings, [(named, spec)], wait=False, talk=False))
        if answer["state"] == "rejected":
            raise InputError(f"{named} is rejected: {answer['reason']}", code="rejected")
        return str(answer["job"])

    def jobs(self) -> list[Row]:
        """Every job as a row, ended ones too: ``pandas.DataFrame(steepest.connect().jobs())``."""
        rows: list[Row]
        if self._settings.client.server:
            from steepest.cli.pool.remote import client_of

            with client_of(self._settings) as gateway:
                rows = msgspec.to_builtins(gateway.jobs(pool=self._settings.pool))
        else:
            from steepest.cli.commands.jobs import rows_of
            from steepest.cli.jobs.progress import look_at_progress

            pool, progress = _run(look_at_progress(self._settings))
            rows = msgspec.to_builtins(rows_of(pool, list(pool.view.jobs), progress))
        return rows

    def curve(self, name: str) -> JobCurve:
        """The course of a job's loss.

        Raises:
            InputError, GatewayError: There is no such job.
        """
        if self._settings.client.server:
            from steepest.cli.pool.remote import client_of

            with client_of(self._settings) as gateway:
                points = [(one.at_ms, one.loss, one.step, one.cpu_ms) for one in gateway.curve(name).points]
        else:
            points = _run(_points(self._settings, name))
        columns = zip(*points, strict=True) if points else ((),) * len(JobCurve._fields)
        return JobCurve(*(array(kind, column) for kind, column in zip("qdqq", columns, strict=True)))

    def wait(self, name: str, *, timeout_s: float | None = None) -> Row:
        """Wait until a job is over, and return its row; ``outcome`` is ``finished``, ``failed`` or ``cancelled``.

        Raises:
            InputError: There is no such job.
            TimeoutError: It is not over in time.
        """
        began = time.monotonic()
        while True:
            row = next((row for row in self.jobs() if row["job"] == name), None)
            if row is None:
                raise InputError(f"there is no job {name!r}", code="no-such-job", hint="see jobs()")
            if row["outcome"] is not None:
                return row
            if timeout_s is not None and time.monotonic() - began >= timeout_s:
                raise TimeoutError(f"{name} is not over after {timeout_s:g} s: it is {row['phase']}")
            time.sleep(LOOK_S)


async def _points(settings: Settings, name: str) -> list[tuple[int, float, int, int]]:
    from steepest.cli.pool.stored_pool import fold, reading
    from steepest.read_models.run_timeline import RunTimeline

    timeline = RunTimeline()

    def take(view: ClusterView, received: Received[Any], *, accepted: bool) -> None:  # noqa: ARG001 - it folds by itself
        timeline.fold(received)

    async with reading(settings) as (installation, log):
        (await fold(settings, installation, log, take)).job(name)
    return list(timeline.jobs[name].points())


def _spec(command: Sequence[str], options: dict[str, Any]) -> Any:
    """The description that these options make, as those of the command line do."""
    from steepest.cli.jobs.job_names import with_python
    from steepest.cli.jobs.job_options import spec_of

    given = dict(options)
    for option, quantity in _AMOUNTS.items():
        if option in given:
            try:
                given[option] = quantity.parse(str(given[option]))
            except ValueError as error:
                raise InputError(f"{option}: {error}") from error
    if "time" in given:
        given["time_limit"] = given.pop("time")
    if isinstance(given.get("replicas"), int):
        given["replicas"] = [str(given["replicas"])]
    given["env"] = [f"{name}={value}" for name, value in dict(given.get("env", {})).items()]
    if "workdir" in given:
        given["workdir"] = Path(given["workdir"])
    try:
        return spec_of(None, command=with_python(tuple(map(str, command)), None), **given)
    except TypeError as error:
        raise InputError(f"submit has no such option: {error}", hint="see `steepest submit --help`") from error


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, also where this thread has a loop that runs, as a notebook's does."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()

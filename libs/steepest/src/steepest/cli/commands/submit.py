"""``steepest submit``: asks for a job to run.

It owns the command's options, what is refused before anything is asked, and the words of the answers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from steepest.app.settings.amounts import NAME_RULE
from steepest.cli.options import (
    ARRAY_MOST,
    CPU,
    GPUS,
    MEMORY,
    REACTIONS,
    SPAN,
    FolderPath,
    OneOf,
    json_option,
    remote_options,
)
from steepest.cli.printing.output import give, tell

if TYPE_CHECKING:
    from steepest.app.settings.tree import Settings
    from steepest.cli.jobs.job_file import JobFile
    from steepest.cli.pool.stored_pool import StoredPool
    from steepest.cli.pool.user_requests import RequestCursor, RequestOutcome
    from steepest.events.cluster import JobSpec
    from steepest.log.base import Log

EPILOG = """\b
Examples:
  steepest submit -- python train.py --epochs 20
  steepest submit --name mnist --cpu 0.2 -- python train.py
  steepest submit --checkpoint on-stop --retries 2 --wait -- ./train.sh
  steepest submit --metric val_loss --format keras --env SEED=7 -- python train.py
  steepest submit --pattern 'it (?P<step>\\d+) cost: (?P<value>\\S+)' -- ./train.sh
  steepest submit --gpus 1 --cpu 8 --memory 32Gi --time 4h --export -- python train.py
  steepest submit --name sweep --array 20%4 -- python sweep.py    STEEPEST_ARRAY_INDEX is 0 to 19, four at a time
  steepest submit --name lr --param lr=1e-3,3e-3 --param wd=0,1e-4 -- python train.py --lr {lr} --wd {wd}    four jobs
  steepest submit --name lr --param lr=log:1e-4..1e-1 --array 27 --rungs 100 -- python train.py --lr {lr}
  steepest submit --after 'sweep-*' -- python best.py             once all of them have finished
  steepest submit --on-end 'echo "$STEEPEST_OUTCOMES" | mail me' -- python train.py
  steepest submit --priority urgent --queue paper --steps 20000 -- python train.py
  steepest submit --server kube: -f job.yaml         to the gateway in the current kube context

A job of several replicas is described in a file, -f job.toml or job.yaml (docs/commands.md); options beside it count more.
The job runs in this folder unless --workdir names another. A bare `python` is the one that this shell finds (in containers:
the image's). Otherwise the job's environment is that of `steepest up` (PATH, ...), or this shell's with --export, and --env;
the values are in the log, so pass no secrets. Numerical libraries start as many threads as --cpu has whole cores, unless
--env or --export sets OMP_NUM_THREADS. Everything after -- is the command; no shell reads it. Where a job of that name is
over, the new one is called NAME.2. Through kube:, a job runs where its image says, or in the image's folder that --workdir
names; the gateway's token is STEEPEST_CLIENT_TOKEN.

--on-end submits a second job, which runs where the first does, as the same user and for at most ten minutes. It finds
STEEPEST_AFTER, STEEPEST_OUTCOMES (finished, failed or cancelled) and STEEPEST_EXIT_STATUSES, a word for each job.
"""

ONE_CORE_M = 1_000


class ArrayType(click.ParamType[tuple[int, int | None]]):
    """``N[%M]``: how many jobs, and how many of them at a time."""

    name = "n[%m]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int | None]:
        """Both numbers; None: all at a time."""
        count, percent, most = str(value).partition("%")
        numbers = [count, most] if percent else [count]
        if not all(one.isascii() and one.isdecimal() and 1 <= int(one) <= ARRAY_MOST for one in numbers):
            self.fail(f"{value!r}: write it like 20, or 20%4 for 4 at a time; at most {ARRAY_MOST}", param, ctx)
        return int(count), int(most) if percent else None


MODES = ("on-request", "on-stop", "none", "system", "auto")


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@remote_options
@click.option(
    "-f",
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Read the job from a TOML or YAML file; options given here override it.",
)
@click.option("--name", help="Name the job; default: the script's name and four letters.")
@click.option(
    "--cpu", type=CPU, help="Reserve so many cores (4, 0.5 or 500m), and start as many threads, at least one (1)."
)
@click.option("--memory", type=MEMORY, default="0", help="Reserve so much memory: MiB, or 2Gi.")
@click.option("--gpus", type=GPUS, help="Reserve so many GPUs, or a share of one: 2, or 0.5.")
@click.option("--checkpoint", type=OneOf(MODES), help="State how it can be saved (auto).")
@click.option(
    "--retries", type=click.IntRange(0), default=0, show_default=True, help="Start it again after so many failures."
)
@click.option("--metric", default="loss", show_default=True, help="Judge it by this metric of its output.")
@click.option("--format", "log_format", default="auto", show_default=True, help="Read its lines in this format.")
@click.option("--pattern", default="", help="Read its lines by this RE2 expression, as in `steepest parse`.")
@click.option(
    "--metrics-folder",
    type=FolderPath(),
    help="Read its losses from TensorBoard event files or an MLflow store below this folder too.",
)
@click.option("--model", default="", help="Say what it trains: jobs of one model are predicted by each other.")
@click.option("--priority", help="Set its priority: a number (more is more urgent), or low, normal, high, urgent.")
@click.option("--queue", default="default", show_default=True, help="Let it wait in this queue.")
@click.option("--replicas", multiple=True, metavar="[ROLE=]N", help="Start so many processes. Repeat it for each role.")
@click.option(
    "--steps",
    type=click.IntRange(1),
    help="State the steps of the whole training; default: as COMMAND states them, like --max-steps 800.",
)
@click.option(
    "--epochs", type=click.IntRange(1), help="State its epochs; default: as COMMAND states them, like --epochs 20."
)
@click.option("--batch-size", type=click.IntRange(1), help="State the examples of a step, all replicas together.")
@click.option("--data-bytes", type=click.IntRange(1), help="State the size of the data set that an epoch reads.")
@click.option("--time", "time_limit", type=SPAN, help="Cancel it once it has run for so long, like 4h.")
@click.option("--after", multiple=True, metavar="JOB", help="Start it once this job has finished. Repeat it.")
@click.option("--after-any", multiple=True, metavar="JOB", help="Start it once this job is over, however it ended.")
@click.option("--on-end", metavar="CMD", help="Run this in a shell once it is over, as a job of its own, NAME-end.")
@click.option("--deadline", type=SPAN, help="Say in what time from now it should end, like 2h; it ends no job.")
@click.option("--until", metavar="CONDITION", help="Finish it once an interval's mean is there: 'loss<0.1'.")
@click.option("--patience", type=click.IntRange(1), help="Finish it after so many intervals without a better mean.")
@click.option("--on-hung", type=OneOf(REACTIONS), help="Do this once it hangs; default: as the pool says.")
@click.option("--on-diverged", type=OneOf(REACTIONS), help="Do this once its loss diverges; likewise.")
@click.option("--on-idle", type=OneOf(REACTIONS), help="Do this once it uses nothing for long; likewise.")
@click.option("--env", multiple=True, metavar="K=V", help="Set a variable of its environment. Repeat it.")
@click.option("--workdir", type=FolderPath(), help="Run it in this folder; default: here.")
@click.option(
    "--python",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Use this interpreter; default: this shell's python.",
)
@click.option("--tty/--no-tty", default=False, help="Let it print to a terminal: some progress bars need one.")
@click.option("--export", is_flag=True, help="Give it this shell's environment, instead of that of `steepest up`.")
@click.option("--array", type=ArrayType(), metavar="N[%M]", help="Submit N jobs, NAME-0, NAME-1, ...; M at a time.")
@click.option("--param", "params", multiple=True, metavar="K=V,...", help="Put each value in place of {K}, a job each.")
@click.option("--seed", type=int, default=0, show_default=True, help="Draw values from ranges (K=LOW..HIGH) with it.")
@click.option(
    "--rungs",
    metavar="N[xF]",
    help="Compare the jobs at step N, FN, F²N, ...; one in F goes on, the others wait (F: 3).",
)
@click.option("--image", default="", help="Run it in this container image, where nodes are Docker engines.")
@click.option("--device", help="Name the MQTT device that trains it and reports its losses.")
@click.option("--force", is_flag=True, help="Submit it also where its program or script is not there.")
@click.option("--wait/--no-wait", default=False, help="Wait for its end; exit with 1 if it did not finish.")
@json_option
@click.argument("command", nargs=-1)
def submit(
    settings: Settings,
    *,
    file: Path | None,
    name: str | None,
    python: Path | None,
    export: bool,
    array: tuple[int, int | None] | None,
    params: tuple[str, ...],
    seed: int,
    on_end: str | None,
    force: bool,
    wait: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Ask for COMMAND to run as a job, and report whether it is admitted."""
    import asyncio

    from steepest.cli.jobs.callers_environment import callers_environment, differing_names
    from steepest.cli.jobs.job_names import name_for, why_not_found, with_python
    from steepest.cli.jobs.job_options import with_cpu, with_length
    from steepest.cli.jobs.sweep_options import jobs_of

    described = _described(file)
    given = {key: asked[key] for key in asked if described is None or _is_given(key)}
    if export:
        given["env"] = (*callers_environment(), *given.get("env", ()))
    spec = _spec_of(settings, described.spec if described else None, given)
    base = name or (described.name if described else None) or name_for(spec.command)
    jobs = [(_checked(each), with_length(one)) for each, one in jobs_of(base, spec, array, params, seed)]
    if described is None and given["cpu"] is None:
        usual_m = usual_cpu(settings, spec)
        jobs = [(each, with_cpu(spec, usual_m)) for each, spec in jobs]
    if settings.client.server:
        from steepest.cli.jobs.gateway_requests import submit_to_gateway

        remote = submit_to_gateway(settings, _with_end(jobs, base, on_end), wait=wait, talk=not as_json)
        if as_json:
            give(remote if array or params or on_end else remote[0])
        sys.exit(_status_of(remote, spec))
    settings = in_pool_of(settings, spec)
    if spec.tty and _in_containers(settings, spec):
        raise click.UsageError("--tty is for jobs that are processes of this machine")
    if python is not None or not _in_containers(settings, spec):
        command = with_python(spec.command, python)
        if command != spec.command:
            tell(f"{spec.command[0]} is {command[0]}", err=True)
        jobs = [(each, _running(one, with_python(one.command, python))) for each, one in jobs]
    if not export and (others := differing_names(settings.folder, spec.env)):
        tell(f"the running system has other values of {others}; --export gives the job yours", err=True)
    if why := why_not_found(jobs[0][1].command, Path(str(spec.working_dir))):
        if not force:
            raise click.UsageError(f"{why}; --force submits it all the same")
        tell(f"Warning: {why}", err=True)
    answers = asyncio.run(ask(settings, jobs, wait=wait, talk=not as_json, at_end=(base, on_end) if on_end else None))
    if as_json:
        give(answers if array or params or on_end else answers[0])
    sys.exit(_status_of(answers, spec))


def _spec_of(settings: Settings, base: JobSpec | None, given: dict[str, Any]) -> JobSpec:
    """The request; in a cluster, a folder is the image's and not this machine's."""
    import msgspec

    from steepest.cli.jobs.job_options import spec_of

    if not settings.client.is_in_cluster:
        return spec_of(base, **given)
    folder = given.get("workdir") or (base.working_dir if base else None)
    base = base and msgspec.structs.replace(base, working_dir=None)
    spec = spec_of(base, **{**given, "workdir": None})
    return msgspec.structs.replace(spec, working_dir=None if folder is None else str(folder))


def usual_cpu(settings: Settings, spec: JobSpec) -> int:
    """Millicores of a replica that asks for none: one core, or less where the nodes could not have all replicas then."""
    if settings.client.server:
        from steepest.cli.jobs.gateway_requests import node_sizes

        sizes = node_sizes(settings)
    else:
        installation = settings.folder.read()
        nodes = installation.nodes_of(settings.pool or installation.pool_of_queue(spec.queue))
        sizes = [node.capacity.cpu_m for node in nodes]
    return max(1, min(ONE_CORE_M, max(sizes), sum(sizes) // spec.world)) if sizes else ONE_CORE_M


def in_pool_of(settings: Settings, spec: JobSpec) -> Settings:
    """The settings with the pool of the job's queue, unless a pool is named."""
    import msgspec

    if settings.pool is not None:
        return settings
    return msgspec.structs.replace(settings, pool=settings.folder.read().pool_of_queue(spec.queue))


def _in_containers(settings: Settings, spec: JobSpec) -> bool:
    """Whether the job's programs are those of an image, and not this machine's."""
    return bool(spec.image) or settings.folder.read().in_containers(str(settings.pool))


def _running(spec: JobSpec, command: tuple[str, ...]) -> JobSpec:
    import msgspec

    return msgspec.structs.replace(spec, command=command)


def _with_end(jobs: Sequence[tuple[str, JobSpec]], base: str, command: str | None) -> list[tuple[str, JobSpec]]:
    """These jobs, and the one that runs a command once they are over."""
    from steepest.cli.jobs.job_options import at_end

    return [*jobs, *([(_checked(f"{base}-end"), at_end(jobs, command))] if command else [])]


def _described(file: Path | None) -> JobFile | None:
    if file is None:
        return None
    from steepest.cli.jobs.job_file import read_job_file

    return read_job_file(file)


def _is_given(option: str) -> bool:
    """Whether the caller wrote an option; with a file, defaults do not count."""
    from click.core import ParameterSource

    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def _checked(name: str) -> str:
    import msgspec

    from steepest.events.common import Name

    try:
        return msgspec.convert(name, Name)
    except msgspec.ValidationError:
        raise click.UsageError(f"{name!r} is no name of a job: {NAME_RULE}") from None


Answer = dict[str, object]
"""The outcome of one job's request, for programs: the job, the request, and the fields of its outcome."""


async def ask(
    settings: Settings,
    jobs: Sequence[tuple[str, JobSpec]],
    *,
    wait: bool,
    talk: bool,
    at_end: tuple[str, str] | None = None,
) -> list[Answer]:
    """Submit all jobs, and what runs at their end (their name and its command), then report of each in turn."""
    import msgspec

    from steepest.app.installation import checked
    from steepest.cli.jobs.sweep_options import of_a_new_sweep
    from steepest.cli.pool.user_requests import append, asking, elsewhere, submission, until_configured

    answers: list[Answer] = []
    async with asking(settings) as (log, opened):
        pool = await until_configured(settings, log, opened)
        jobs = [(name, _after_known(pool, spec)) for name, spec in jobs]
        jobs = [(name, checked(pool.installation, pool.name, pool.view, name, spec)) for name, spec in jobs]
        others = await elsewhere(settings, pool, log)
        jobs = of_a_new_sweep(pool.view, jobs)
        jobs = [(_free(pool, others, name), spec) for name, spec in jobs]
        if at_end is not None:
            *_, (name, spec) = _with_end(jobs, *at_end)
            jobs = [*jobs, (_free(pool, others, name), spec)]
        events = [submission(name, spec) for name, spec in jobs]
        places = [await append(log, pool, event) for event in events]
        for event, place in zip(events, places, strict=True):
            answer = await _answer(log, pool, event.job, place, wait=wait, talk=talk)
            answers.append({"job": event.job, "request": event.request, **msgspec.to_builtins(answer)})
    return answers


async def _answer(
    log: Log, pool: StoredPool, job: str, place: RequestCursor, *, wait: bool, talk: bool
) -> RequestOutcome:
    from steepest.cli.pool.user_requests import RequestOutcome, admission

    running = pool.folder.is_up
    answer = await admission(log, pool, place) if running or wait else RequestOutcome(state="queued")
    if talk:
        _tell(job, answer, pool, running=running)
    if wait and answer.state != "rejected":
        answer = await _wait(log, pool, place, job, talk=talk)
        if talk and answer.state == "rejected":
            _tell(job, answer, pool, running=True)
    return answer


def _after_known(pool: StoredPool, spec: JobSpec) -> JobSpec:
    """The description with the names of the jobs that it comes after, in place of patterns.

    Raises:
        InputError: There is no such job.
    """
    if not spec.after:
        return spec
    import msgspec

    from steepest.read_models.changes.selection import Selection, select

    return msgspec.structs.replace(spec, after=tuple(job.name for job in select(pool, Selection(spec.after))))


def _free(pool: StoredPool, others: Sequence[StoredPool], name: str) -> str:
    """The name that a job gets; that of a job which still runs or waits is left for the system to refuse.

    Raises:
        InputError: A job of that name runs or waits in another pool; the losses of both would be taken for one job's.
    """
    from steepest.errors import InputError
    from steepest.read_models.changes.job_changes import free_name

    for other in others:
        job = other.view.jobs.get(name)
        if job is not None and job.outcome is None:
            raise InputError(
                f"the pool {other.name} has a job named {name}: names are unique in an installation",
                hint="give it another name with --name",
            )

    def is_over(each: str) -> bool | None:
        found = [one.view.jobs[each] for one in (pool, *others) if each in one.view.jobs]
        return all(job.outcome is not None for job in found) if found else None

    free = free_name(name, is_over)
    if free != name:
        tell(f"a job named {name} is over already; this one is {free}", err=True)
    return _checked(free)


def _tell(job: str, answer: RequestOutcome, pool: StoredPool, *, running: bool) -> None:
    if answer.state == "rejected":
        tell(f"Error: {job} is rejected: {answer.reason}", err=True)
        return
    if answer.state == "admitted":
        tell(f"{job} is admitted; see `steepest explain {job}`")
        return
    tell(f"{job} waits in the log")
    why = "has not answered yet" if running else f"does not run on {pool.folder.root}; start it with `steepest up`"
    tell(f"Warning: the system {why}", err=True)


async def _wait(log: Log, pool: StoredPool, place: RequestCursor, job: str, *, talk: bool) -> RequestOutcome:
    """Print what happens to a job until it is over; warn once if no system runs it any more."""
    from steepest.cli.jobs.job_output import printed_last
    from steepest.cli.pool.user_requests import RequestOutcome, end_of
    from steepest.describe import is_routine, sentence
    from steepest.events.cluster import Outcome

    deserted = False
    async for news in end_of(log, pool, place, job):
        if isinstance(news, RequestOutcome):
            if talk and news.outcome is Outcome.FAILED:
                for line in printed_last(pool.folder, job, pool.view.jobs[job].stop_replica):
                    tell(f"{job} printed: {click.unstyle(line)}", err=True)
            return news
        if news is not None and talk and not is_routine(news.event):
            tell(sentence(news.event))
        if news is None and not deserted and not pool.folder.is_up:
            deserted = True
            tell(f"Warning: no system runs on {pool.folder.root}; {job} waits until one does", err=True)
    raise AssertionError("a log is followed for ever")


def _status_of(answers: Sequence[Answer], spec: JobSpec) -> int:
    """Of a sweep, the best trial finishes and the others are cancelled; otherwise, all jobs should finish."""
    if spec.rungs is not None and any(answer["outcome"] == "finished" for answer in answers):
        return 0
    return max(map(_status, answers))


def _status(answer: Answer) -> int:
    if answer["state"] == "rejected":
        return 2
    return 1 if answer["outcome"] not in {None, "finished"} else 0

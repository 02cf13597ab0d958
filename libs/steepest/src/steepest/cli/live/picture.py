"""The live view's picture of a timeline: nodes with their jobs and scores, jobs with their losses, the decisions in words.

It owns the layout, for any size of terminal. It must never know a terminal, a clock or a log: a timeline in, a picture out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from steepest.cli.live.colours import CATEGORIES, OUTCOMES
from steepest.cli.live.headline import headline_of
from steepest.cli.live.headline import in_words as in_figures
from steepest.describe import CATEGORIES as NAMES
from steepest.describe import count, percent, sentence, span
from steepest.events import cluster as c
from steepest.policies.forecast import remaining
from steepest.policies.placement.standing import Standing, standings
from steepest.read_models.job_progress import share_done
from steepest.read_models.run_timeline import RunTimeline, TimelineJob, placed_on
from steepest.view.state import Job, Node, Phase

ARRIVED = "★"
ARRIVED_MS = 4_000
"""For how long a job that has just started or arrived on a node is marked there."""

LIMITED = "≤"
"""Before a job's CPU limit."""

TITLE = "demo"

EVENT_STYLES = {
    c.MigrationPlanned: "magenta",
    c.TransitionPlanned: "magenta",
    c.StayDecided: "magenta",
    c.LimitsPlanned: "magenta",
    c.LimitsRefused: "red",
    c.MigrationFinished: "",
    c.MigrationFailed: "red",
    c.JobSuspended: "",
    c.TransitionFinished: "",
    c.TransitionFailed: "red",
    c.JobRejected: "red",
    c.GoalReached: "green",
    c.FindingOpened: "red",
    c.FindingEnded: "green",
    c.ReactionPlanned: "red",
    c.TrialJudged: "magenta",
    c.JobEnded: "dim",
}
"""The events in words, with their colours: decisions stand out. Changes of category are to be seen at the jobs."""

BAR = 20
SPARK = 24
TALL = 20
"""From this height on, a legend is shown."""

WIDE = 100
"""From this width on, jobs are shown with their models and longer courses."""

WITH_TIME_LEFT = 130
"""From this width on, jobs are shown with the time that is left."""

BLOCKS = "▁▂▃▄▅▆▇█"

CATEGORY_LETTERS = len("cancelled")
MOVES_LETTERS = len("n1 → n2 → n3")

MODEL_LETTERS = 20
"""Most letters of a model; a longer one is cut, so that no other column is."""

QUEUE_MOST = 200
"""With more waiting jobs, it is not shown how each of them stands: that takes too long for a picture four times a second."""

WORDS_LINES = 8
WORDS_LEAST = 3
HEADS = 6
"""Lines of the picture other than its nodes, jobs and words: the headline, the tables' heads, and rules."""


def picture(timeline: RunTimeline, width: int, height: int, title: str = TITLE) -> RenderableType:
    """A picture of at most ``height`` lines; where there is little room, jobs that are over go first, then old words."""
    key = [legend(timeline, width)] if height >= TALL else []
    room = max(2, height - HEADS - len(key) - len(list(timeline.view.nodes)))
    words = min(WORDS_LINES, max(WORDS_LEAST, room - len(timeline.jobs)), room - 1)
    return Group(
        headline(timeline, title),
        Rule(style="dim"),
        node_table(timeline, width),
        *key,
        Rule(style="dim"),
        job_table(timeline, width, room - words),
        Rule(style="dim"),
        in_words(timeline, width, words),
    )


# --- the headline -----------------------------------------------------------------------------------------------------


def headline(timeline: RunTimeline, title: str = TITLE) -> Text:
    """The title and the state of the pool, in one line."""
    phases = [job.phase for job in timeline.view.jobs]
    waiting = phases.count(Phase.WAITING) + phases.count(Phase.SUSPENDED)
    facts = [
        f"{phases.count(Phase.RUNNING)} running",
        *([f"{waiting} waiting"] if waiting else []),
        f"{timeline.ended()} over",
        *filter(None, [in_figures(headline_of(timeline))]),
        moves_in_words(timeline),
        count(timeline.stays, "stay"),
        f"{count(timeline.steps_lost, 'step')} lost",
    ]
    time = clock(timeline.now_ms - timeline.began_ms)
    text = Text.assemble((f"steepest {title}", "bold green"), "  ", (time, "bold"), "  ", " · ".join(facts))
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def moves_in_words(timeline: RunTimeline) -> str:
    """``8 moves (3 to rebalance)``: those that arrived."""
    done = [move for move in timeline.moves if move.done]
    rebalances = sum(move.kind is c.MoveKind.REBALANCE for move in done)
    return count(len(done), "move") + (f" ({rebalances} to rebalance)" if rebalances else "")


def clock(ms: int) -> str:
    """A time of the run: ``1:07``."""
    minutes, seconds = divmod(max(0, ms) // 1000, 60)
    return f"{minutes}:{seconds:02d}"


# --- nodes ------------------------------------------------------------------------------------------------------------


def node_table(timeline: RunTimeline, width: int) -> Table:
    """The nodes with what they have, what of it is used, their score and their jobs in the colours of the categories.

    The limit of a limited job is printed next to it. Scores are shown where they decide.
    """
    table = _table(width)
    table.add_column("node", no_wrap=True)
    table.add_column("capacity", justify="right", no_wrap=True)
    table.add_column("in use", no_wrap=True)
    scored = _is_scored(timeline)
    if scored:
        table.add_column("score", justify="right", no_wrap=True)
    table.add_column("jobs", ratio=1, no_wrap=True, overflow="ellipsis")
    length = BAR if width >= WIDE else BAR // 2
    largest = max((node.capacity.cpu_m for node in timeline.view.nodes), default=0)
    for node in timeline.view.nodes:
        score = [f"{timeline.view.nodes.score(node):g}"] if scored else []
        table.add_row(
            Text(node.name, "bold"),
            f"{node.capacity.cpu_m}m",
            bar(node, length, largest),
            *score,
            _jobs_on(timeline, node),
        )
    return table


def _is_scored(timeline: RunTimeline) -> bool:
    """Whether the nodes' scores decide about moves."""
    return timeline.view.parameters.moves and not timeline.view.parameters.steepest.on


def bar(node: Node, length: int, largest_m: int) -> Text:
    """A node's measured use of its capacity, as long as its capacity is next to the largest node's."""
    whole_m = node.capacity.cpu_m
    share = min(1.0, node.used.cpu_m / whole_m) if whole_m else 0.0
    long = max(1, round(length * whole_m / largest_m)) if largest_m else length
    filled = round(share * long)
    rest = ("━" * (long - filled), "bright_black")
    return Text.assemble(("━" * filled, "cyan"), rest, f"{share:5.0%}", " " * (length - long))


def legend(timeline: RunTimeline, width: int) -> Text:
    """The legend: the letters, the colours and the score."""
    specon = timeline.view.parameters.specon
    weights = (specon.weight_pc, specon.weight_wc, specon.weight_cc)
    scored = _is_scored(timeline)
    text = Text("score: " if scored else "by its loss: ", "dim", no_wrap=True, overflow="ellipsis")
    for number, (category, style) in enumerate(CATEGORIES.items()):
        name = NAMES[category] if width >= WIDE else ""
        between, weight = (" + ", f"{weights[number]:g} ") if scored else (", ", "")
        text.append(f"{between if number else ''}{weight}")
        text.append(f"{category.value}{' ' + name if name else ''}", style)
    text.append(" · lowest takes the next" if scored else f" · {LIMITED}120m CPU limit")
    text.append(f" · {ARRIVED} just arrived · → moving")
    return text


def _jobs_on(timeline: RunTimeline, node: Node) -> Text:
    here = [job for job in timeline.view.jobs if node.name in job.assigned]
    if not here:
        return Text("idle", "dim")
    return Text("  ").join(
        Text.assemble((_mark(timeline, node, job) + job.name, _style(job)), (_limit(node, job), "dim")) for job in here
    )


def _limit(node: Node, job: Job) -> str:
    """The CPU limit in force of a job that runs there."""
    limit_m = None if job.limit is None or job.node != node.name else job.limit.in_force_m
    return "" if limit_m is None else f" {LIMITED}{limit_m}m"


def _style(job: Job) -> str:
    """The colour of a job's category; none where nothing is known of its growth."""
    return "" if job.unknown else CATEGORIES[job.category]


def _mark(timeline: RunTimeline, node: Node, job: Job) -> str:
    if job.node != node.name:
        return "→"
    arrived_ms = timeline.jobs[job.name].arrived_ms
    return ARRIVED if arrived_ms is not None and timeline.now_ms - arrived_ms < ARRIVED_MS else ""


# --- jobs -------------------------------------------------------------------------------------------------------------


def job_table(timeline: RunTimeline, width: int, most: int) -> Table:
    """The jobs, in the order of their submission, with the course of their losses; at most ``most`` of them."""
    wide = width >= WIDE
    table = _table(width)
    table.add_column("job", no_wrap=True)
    if wide:
        table.add_column("model", no_wrap=True, max_width=MODEL_LETTERS if width < WITH_TIME_LEFT else None)
    table.add_column("node", no_wrap=True)
    table.add_column("loss", width=SPARK if wide else SPARK * 2 // 3, no_wrap=True)
    table.add_column("growth", justify="right", no_wrap=True)
    table.add_column("cat", no_wrap=True, min_width=CATEGORY_LETTERS if wide else None)
    shown = _shown(timeline, most)
    with_done = any(share_done(timeline.view.jobs[job.name]) for job in shown if job.outcome is None)
    if with_done:
        table.add_column("done", no_wrap=True)
    table.add_column("moves", ratio=1, no_wrap=True, overflow="ellipsis", min_width=MOVES_LETTERS if wide else None)
    standing = _standings(timeline)
    for job in shown:
        done = None if not with_done else _done(timeline, job, with_left=width >= WITH_TIME_LEFT)
        table.add_row(*_job_row(job, timeline.view.jobs[job.name], standing.get(job.name), wide=wide, done=done))
    return table


def _standings(timeline: RunTimeline) -> Mapping[str, Standing]:
    return standings(timeline.view) if len(timeline.view.jobs.queue) <= QUEUE_MOST else {}


def _job_row(job: TimelineJob, state: Job, standing: Standing | None, *, wide: bool, done: str | None) -> list[Text]:
    over = job.outcome is not None
    style = "dim" if over else _style(state)
    growth = "" if over or state.growth is None else percent(state.growth)
    return [
        Text(job.name, "dim" if over else "bold"),
        *([Text(job.model, "dim" if over else "")] if wide else []),
        Text("" if over else _where(state, standing)),
        Text(sparkline(job.means, SPARK if wide else SPARK * 2 // 3), style),
        Text(growth),
        _category(job, state),
        *([] if done is None else [Text(done)]),
        Text(_path(job), "dim" if over else "") if standing is None else Text(_why_it_waits(standing), "yellow"),
    ]


def _done(timeline: RunTimeline, job: TimelineJob, *, with_left: bool) -> str:
    """The share of its steps that a job has done, and where there is room the time that is left; empty where it is over."""
    if job.outcome is not None:
        return ""
    state = timeline.view.jobs[job.name]
    left = remaining(timeline.view, state, timeline.now_ms) if with_left else None
    return share_done(state) if left is None else f"{share_done(state)}, {span(left.p50)} left"


def _shown(timeline: RunTimeline, most: int) -> list[TimelineJob]:
    """All jobs if there is room; else those that are over give way, the first to end first."""
    jobs = list(timeline.jobs.values())
    ended = sorted((job for job in jobs if job.outcome is not None), key=lambda job: job.ended_ms or 0)
    gone = [job.name for job in ended[: max(0, len(jobs) - most)]]
    return [job for job in jobs if job.name not in gone][:most]


def _where(job: Job, standing: Standing | None) -> str:
    position = "" if standing is None else f" {standing.position}/{standing.waiting}"
    if job.phase is Phase.SUSPENDED:
        return f"suspended{position}"
    if job.spec.is_gang and job.nodes:
        return placed_on(job.nodes)
    target = next((name for name in job.assigned if name != job.node), None)
    if job.node is None:
        return f"→ {target}" if target else f"waits{position}"
    return f"{job.node} → {target}" if target else job.node


def _category(job: TimelineJob, state: Job) -> Text:
    if job.outcome is not None:
        return Text(job.outcome.value, OUTCOMES[job.outcome])
    return _known_category(state) if job.started_ms is not None else Text()


def _known_category(job: Job) -> Text:
    return Text("● ?" if job.unknown else f"● {job.category.value}", _style(job))


def _path(job: TimelineJob) -> str:
    return " → ".join(job.path) if len(job.path) > 1 else "stays" if job.stays else ""


def _why_it_waits(standing: Standing) -> str:
    """When a job may start, if that is known, and what it waits for."""
    start = "" if standing.start_ms is None else f"may start in {span(standing.start_ms)}: "
    return f"{start}{standing.reason}"


# --- words ------------------------------------------------------------------------------------------------------------


def in_words(timeline: RunTimeline, width: int, lines: int) -> Table:
    """The newest that was decided and what became of it, in words, newest first, on at most ``lines`` lines."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.width = width
    table.add_column(justify="right", style="dim", no_wrap=True, min_width=4)
    table.add_column(ratio=1)
    for at_ms, event, room in _fitting(timeline, max(20, width - 7), lines):
        text = Text(sentence(event), EVENT_STYLES[type(event)])
        text.truncate(room, overflow="ellipsis")
        table.add_row(clock(at_ms - timeline.began_ms), text)
    return table


def _fitting(timeline: RunTimeline, width: int, lines: int) -> Iterator[tuple[int, c.ClusterEvent, int]]:
    """The newest events in words, on at most this many lines, each of at most this many letters."""
    for at_ms, event in reversed(timeline.shown):
        if lines <= 0:
            return
        if type(event) in EVENT_STYLES:
            needed = -(-len(sentence(event)) // (width - 8))  # words do not break at the last letter
            yield at_ms, event, min(lines, needed) * (width - 8)
            lines -= needed


def _table(width: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.width = width
    return table


def sparkline(values: Sequence[float], width: int) -> str:
    """Values from lowest to highest block, the whole course in at most ``width`` letters.

    Where there are more values than letters, each letter is the mean of its share of them, all shares nearly alike.
    """
    if not values or width < 1:
        return ""
    letters = min(width, len(values))
    edges = [place * len(values) // letters for place in range(letters + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low, high = min(means), max(means)
    unit = (high - low) or 1.0
    return "".join(BLOCKS[round((mean - low) / unit * (len(BLOCKS) - 1))] for mean in means)

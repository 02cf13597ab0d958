"""What a watcher must be able to read off the picture, on terminals of any size."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tests.unit.demo.run import log, story

from steepest.cli.live.headline import headline_of, in_words
from steepest.cli.live.picture import ARRIVED_MS, BLOCKS, clock, picture, sparkline
from steepest.events import cluster as c
from steepest.read_models.run_timeline import RunTimeline
from steepest_lab.demo.svg import most_telling, svg
from steepest_lab.demo.workload import parameters


def drawn(timeline: RunTimeline, width: int = 110, height: int = 40) -> list[str]:
    """The picture as lines of plain text."""
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    with console.capture() as captured:
        console.print(picture(timeline, width, height))
    return captured.get().rstrip("\n").split("\n")


def line(lines: list[str], begin: str) -> str:
    """The line that begins so."""
    return next(each for each in lines if each.startswith(begin))


def test_headline_counts_what_happened() -> None:
    """Time, jobs, moves, stays and lost steps are in the first line."""
    timeline = story()
    words = re.split(r"\s{2,}| · ", drawn(timeline, 130)[0].strip())

    figures = in_words(headline_of(timeline)).split(" · ")

    assert words[0] == "steepest demo"
    assert words[1] == clock(timeline.now_ms - timeline.began_ms)
    assert words[2:] == ["1 running", "1 waiting", "2 over", *figures, "1 move", "1 stay", "no step lost"]


def test_node_shows_capacity_score_and_jobs() -> None:
    """n1 has 600m and the job that stays, which is watched and weighs 1.5; n3 has nothing to do."""
    lines = drawn(story())

    assert line(lines, "n1").split()[1] == "600m"
    assert line(lines, "n1").split()[-2:] == ["1.5", "stayer"]
    assert line(lines, "n3").split()[-2:] == ["0", "idle"]


def test_job_shows_its_loss_growth_category_and_path() -> None:
    """A running job has all of it; one that is over keeps its course and its way through the nodes."""
    lines = drawn(story())

    assert line(lines, "stayer").split() == ["stayer", "n1", "▁▁", "12", "%", "●", "WC", "stays"]
    assert line(lines, "mover").split() == ["mover", "█▃▁", "finished", "n1", "→", "n2"]
    assert line(lines, "broken").split()[-1] == "failed"
    assert line(lines, "late").split()[:3] == ["late", "waits", "1/1"]


def test_a_waiting_job_shows_its_place_in_the_queue_and_why() -> None:
    """As `jobs` does: where it stands, what it waits for, and when it may start if that is known."""
    built = log().submitted("huge", 5_000)
    built.add(c.JobAdmitted(job="huge", request="r")).add(c.JobAdmitted(job="late", request="r"))
    lines = drawn(RunTimeline.of(built.records), 200)

    assert line(lines, "late").split()[1:3] == ["waits", "1/2"]
    assert "the placer considers it at the next record" in line(lines, "late")
    assert line(lines, "huge").split()[1:3] == ["waits", "2/2"]
    assert "no node has 5000m CPU free: CPU is short" in line(lines, "huge")


def test_a_queue_without_end_is_not_gone_through_for_a_picture() -> None:
    """Beyond 200 waiting jobs, they only wait."""
    built = log()
    for number in range(200):
        built.submitted(f"job-{number}", 50)

    assert line(drawn(RunTimeline.of(built.records), 110, 300), "job-7").split() == ["job-7", "waits"]


def test_bars_are_as_long_as_nodes_are_large() -> None:
    """n1 has 600m and a bar of twenty letters; n3 has 350m and one of twelve."""
    lines = drawn(story())

    assert [line(lines, node).count("━") for node in ("n1", "n3")] == [20, 12]


def test_legend_says_what_letters_and_score_mean() -> None:
    """The three categories by name, with their weights in the score, below the nodes."""
    assert line(drawn(story()), "score:").startswith(
        "score: 2 PC progressing + 1.5 WC watched + 1 CC converged · lowest takes the next"
    )


def test_under_steepest_limits_are_shown_and_no_scores() -> None:
    """A limit in force stands beside its job; scores decide nothing there, and neither does the legend name them."""
    built = log().add(c.PoolConfigured(parameters=parameters("steepest")))
    for plan, cpu_m in (("p", 120), ("q", None)):
        limit = c.JobLimit("stayer", 1, cpu_m=cpu_m)
        built.add(
            c.LimitsPlanned(plan=plan, node="n1", limits=(limit,), because=c.LimitsBecause(rule="by hand")),
            c.LimitsApplied(plan=plan, node="n1", job="stayer", incarnation=1, cpu_m=cpu_m),
        )
        lines = drawn(RunTimeline.of(built.records))
        assert line(lines, "n1").split()[-1] == ("stayer" if cpu_m is None else "≤120m")
        assert line(lines, "n3").split()[-2:] == ["0%", "idle"]
        assert line(lines, "by its loss").startswith(
            "by its loss: PC progressing, WC watched, CC converged · ≤120m CPU limit · ★ just arrived · → moving"
        )


def test_a_job_that_has_just_arrived_is_marked() -> None:
    """For a few seconds after its move, on the node that it came to."""
    records = log().records
    arrived = next(place for place, record in enumerate(records) if isinstance(record.event, c.MigrationFinished))
    timeline = RunTimeline.of(records[: arrived + 1])

    assert "★mover" in line(drawn(timeline), "n2")
    timeline.now_ms += ARRIVED_MS
    assert "★" not in line(drawn(timeline), "n2")


def test_a_story_goes_on_from_a_view() -> None:
    """Of a log that is too long, jobs and nodes are those of a view, and later events are counted from there on."""
    records = log().records
    timeline = RunTimeline.of(records[:-4])
    resumed = RunTimeline.resumed(timeline.view, timeline.now_ms)
    for record in records[-4:]:
        resumed.fold(record)

    assert {name: job.outcome for name, job in resumed.jobs.items()} == {
        name: job.outcome for name, job in story().jobs.items()
    }
    assert line(drawn(resumed), "stayer")


def test_job_under_way_shows_both_ends() -> None:
    """While it moves, a job stands at its source with an arrow to its target, where it counts already."""
    records = log().records
    planned = next(place for place, record in enumerate(records) if isinstance(record.event, c.MigrationPlanned))
    lines = drawn(RunTimeline.of(records[: planned + 1]))

    assert "n1 → n2" in line(lines, "mover")
    assert "→mover" in line(lines, "n2")


def test_newest_words_come_first() -> None:
    """The newest sentence is at the top, and older ones are below."""
    words = drawn(story())[-5:]

    assert "mover finished" in words[0]
    assert "broken failed: it exited with status 3" in words[1]
    assert "stayer stays on n1" in words[2]


@given(width=st.integers(40, 200), height=st.integers(16, 80), records=st.integers(0, len(log().records)))
def test_picture_never_outgrows_its_terminal(width: int, height: int, records: int) -> None:
    """At any size and moment, it has no more lines and columns than the terminal."""
    lines = drawn(RunTimeline.of(log().records[:records]), width, height)

    assert len(lines) <= height
    assert all(len(each) <= width for each in lines)


def test_jobs_that_are_over_give_way() -> None:
    """With too few lines for all jobs, those that run or wait are still shown."""
    names = [each.split()[0] for each in drawn(story(), 110, 14)[8:] if each.split()]

    assert {"stayer", "late"} <= {*names}
    assert "broken" not in names


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=100), st.integers(1, 40))
def test_sparkline_keeps_to_its_width_and_spans_all_blocks(values: list[float], width: int) -> None:
    """It is as long as the course or the room, made of the eight blocks; its lowest letter is the lowest block."""
    line_ = sparkline(values, width)

    assert len(line_) == min(len(values), width)
    assert min(line_) == BLOCKS[0]


@pytest.mark.parametrize(
    ("values", "width", "shown"),
    [
        ([], 10, ""),
        ([1.0], 10, "▁"),
        ([7, 6, 5, 4, 3, 2, 1, 0], 8, BLOCKS[::-1]),
        ([8, 6, 1, 1], 2, "█▁"),
        ([1.0], 0, ""),
    ],
)
def test_sparkline_examples(values: list[float], width: int, shown: str) -> None:
    """A fall is a fall, neighbours share a letter where there is little room, and nothing is nothing."""
    assert sparkline(values, width) == shown


def test_svg_is_whole_and_asks_nobody() -> None:
    """It parses, says what the picture says in a monospace font, and holds no address but the names of its own format."""
    text = svg(story())
    root = ET.fromstring(text)  # noqa: S314 - it is our own output that is parsed
    words = " ".join("".join(element.itertext()) for element in root.iter()).replace("\xa0", " ")

    assert "mover" in words
    assert "monospace" in text
    assert re.findall(r"https?://[^\"' )]*", text) == ["http://www.w3.org/2000/svg"]
    assert "@import" not in text
    assert "url(" not in text.replace("url(#", "")


def test_svg_has_no_blanks_at_the_ends_of_its_texts() -> None:
    """Some renderers drop them and stretch the rest; so each text begins and ends with a letter, where it stands."""
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", svg(story()))

    assert texts
    assert not [text for text in texts if text.startswith("&#160;") or text.endswith("&#160;")]


def test_most_telling_moment_has_its_moves_behind_it() -> None:
    """The move and the stay are done, and it is not merely the end: jobs still run."""
    moment = most_telling(log().records)

    assert [move.done for move in moment.moves] == [True]
    assert moment.stays == 1
    assert moment.ended() == 0

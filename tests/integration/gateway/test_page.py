"""The live page in a real Chromium: its views load, follow the pool, and survive a gateway that dies."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.integration.gateway.browser import OWN, Browser
from tests.integration.gateway.served import ServedFolder, measured, running, submitted
from tests.integration.gateway.test_printed import printing

from steepest.client import Client
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import FlowConParameters, PoolParameters

VIEWS = {
    "cluster": "Full nodes",
    "jobs": "Filter",
    "job/a": "Decisions",
    "nodes": "takes jobs",
    "decisions": "Decisions",
    "compare": "There is one pool.",
    "letters": "Every record could be read.",
}
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202e\x07{{7*7}}"


def filled(served: ServedFolder) -> str:
    """A gateway over a pool with jobs that run and wait."""
    served.append(*running("a", "n1"), *running("b", "n2", model=HOSTILE), *submitted("c", queue="paper"))
    served.append(*(measured("a", interval, 5.0 / interval) for interval in range(1, 9)))
    served.append(c.CategoryChanged(job="a", before=c.Category.PROGRESSING, after=c.Category.WATCHED, growth=0.001))
    return served.start()


def test_every_view_loads_and_is_accessible(served: ServedFolder, browser: Browser, phone: Browser) -> None:
    """On a desk and on a phone in the dark: no error, no request to another host, nothing that axe objects to."""
    address = filled(served)
    for one in (browser, phone):
        one.complaints()  # of the tests before
        for view, text in VIEWS.items():
            one.driver.get(f"{address}/#/{view}")
            one.shows(text)
            assert one.violations() == [], view
            assert one.run("return document.documentElement.scrollWidth <= innerWidth"), f"{view} is too wide"
        assert one.foreign() == []
        assert one.complaints() == []
    assert phone.run("return matchMedia('(prefers-color-scheme: dark)').matches")


def test_it_follows_the_pool_and_survives_its_gateway(served: ServedFolder, browser: Browser) -> None:
    """What is appended appears; after a kill the page goes on by itself, with what happened meanwhile, and nothing twice."""
    address = filled(served)
    browser.driver.get(f"{address}/#/decisions")
    browser.shows("placed on n2")
    assert "watched" not in browser.text()
    browser.run("document.querySelector('main input[type=checkbox]').click()")
    browser.shows("watched")
    last = served.append(*submitted("live"))
    browser.until(lambda: browser.position() == last + 1, "the page is where the log is")
    browser.shows("live")
    served.kill()
    browser.until(lambda: browser.run("return document.documentElement.dataset.link") == "away", "it notices")
    browser.shows("no connection")
    last = served.append(*submitted("meanwhile"))
    served.start()
    browser.until(lambda: browser.position() == last + 1, "the page has caught up")
    browser.shows("meanwhile")
    names = browser.run("return [...document.querySelectorAll('.decisions li')].map((li) => li.innerText)")
    assert len(names) == len(set(names)), "an entry is there twice"


def test_a_hostile_name_is_text(served: ServedFolder, browser: Browser) -> None:
    """Markup, templates and letters that turn a line around, in everything that a job may name."""
    served.append(*running("b", "n2", model=HOSTILE, queue="default"))
    served.append(c.JobEnded(job="b", outcome=c.Outcome.FAILED, exit_status=1, reason=HOSTILE))
    served.append_raw(b"<script>alert(3)</script>")
    address = served.start()
    for view in ("jobs", "job/b", "decisions", "job/%3Cscript%3Ealert(4)%3C%2Fscript%3E", "job/%E0%A4%A"):
        browser.driver.get(f"{address}/#/{view}")
        browser.until(lambda: browser.run("return document.querySelector('h2') !== null"), view)
        assert browser.run("return document.querySelectorAll('main img, main script').length") == 0
        assert "\u202e" not in browser.text()
    browser.driver.get(f"{address}/#/jobs")
    browser.shows("<img src=x onerror=")
    assert not [one for one in browser.complaints() if "Refused" in one or "violates" in one]


POINT = """
const over = document.querySelector('.u-over'), { left, width } = over.getBoundingClientRect();
const lane = document.querySelectorAll('.gutter .lane')[1 + arguments[0]].getBoundingClientRect();
const place = { clientX: left + width / 2, clientY: lane.bottom - 8, pointerId: 1, bubbles: true };
for (const kind of arguments[1]) over.dispatchEvent(new PointerEvent(kind, place));
"""
PRESS = """
const key = new KeyboardEvent('keydown', { key: arguments[0], bubbles: true });
document.querySelector('.timeline').dispatchEvent(key);
"""


@contextmanager
def viewed(recording: str, *options: str) -> Iterator[str]:
    """The address of a page over a recording."""
    with socket.socket() as one:
        one.bind((OWN, 0))
        port = one.getsockname()[1]
    command = [sys.executable, "-m", "steepest", "replay", recording, "--view", *options, "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as shown:
        try:
            assert shown.stdout is not None
            shown.stdout.readline()
            yield f"http://{OWN}:{port}"
        finally:
            shown.send_signal(signal.SIGINT)


def drawn(served: ServedFolder, browser: Browser) -> str:
    """The first view of a minute in which one job runs, one has finished and one waits."""
    address = filled(served)
    served.append(
        *(
            c.NodeUsage(node=node, used=Resources(cpu_m=3_000), jobs={job: 3_000})
            for job, node in (("a", "n1"), ("b", "n2"))
        )
    )
    stopped = c.ReplicaStopped(job="b", incarnation=1, node="n2", exit_status=0)
    served.append(stopped, c.JobEnded(job="b", outcome=c.Outcome.FINISHED), later_ms=50_000)
    last = served.append(c.Tick(counted_ms=60_000), later_ms=60_000)
    browser.driver.get(f"{address}/#/")
    browser.until(lambda: browser.position() == last + 1, "the page is where the log is")
    browser.until(lambda: browser.run("return document.documentElement.dataset.drawn"), "it is drawn")
    browser.shows("2 runs, 3 waits")
    browser.until(lambda: "in use" in browser.text() and "75 %" in browser.text(), "the newest answer is drawn")
    return address


def test_the_timeline_shows_each_run_and_opens_its_job(served: ServedFolder, browser: Browser) -> None:
    """On the canvas under the pointer, by keyboard, and in the table behind it; a click opens the job."""
    drawn(served, browser)
    browser.complaints()  # of the tests before
    for lane, said in enumerate((("a", "watched", "75 % of the node"), ("b", "finished", "75 % of the node"))):
        browser.run(POINT, lane, ["pointermove"])
        card = browser.until(lambda: browser.run("return document.querySelector('.card')?.innerText"), "a card")
        assert all(word in card for word in said), card
        browser.run("document.querySelector('.u-over').dispatchEvent(new PointerEvent('pointerleave'))")
    browser.run("document.querySelector('main details').open = true")
    table = browser.until(
        lambda: browser.run("return document.querySelector('main details table')?.innerText"), "a table"
    )
    rows = [line.split("\t") for line in table.splitlines()]
    assert [[row[0], row[1], row[6]] for row in rows if len(row) > 6 and row[1] in {"n1", "n2"}] == [
        ["a", "n1", "runs"],
        ["b", "n2", "finished"],
    ]
    assert browser.violations() == []

    browser.run(PRESS, "ArrowDown")
    browser.shows("a ran 1 time on n1")
    for key in ("+", "ArrowLeft", "-", "0", "n", "o", "o"):
        browser.run(PRESS, key)
    browser.run(PRESS, "Enter")
    browser.until(lambda: browser.run("return location.hash") == "#/job/a", "the job is open")
    browser.driver.back()
    browser.shows("Full nodes")
    browser.run(POINT, 1, ["pointerdown", "pointerup"])
    browser.until(lambda: browser.run("return location.hash") == "#/job/b", "a click opens the job")
    assert browser.complaints() == []


SLIDE = """
const s = document.querySelector('input[type=range]');
s.focus();
s.value = Number(s.min) + arguments[0] * (s.max - s.min);
s.dispatchEvent(new Event('input', { bubbles: true }));
"""
ESCAPE = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }))"


def slide(browser: Browser, share: float) -> None:
    """Move the cursor of the strip to a part of the log's time, once the strip is there."""
    browser.until(lambda: browser.run("return document.querySelector('.strip input') !== null"), "the strip is there")
    browser.run(SLIDE, share)


def test_the_strip_moves_the_timeline_through_its_window(served: ServedFolder, browser: Browser) -> None:
    """What was not known at the time is not there; at the beginning of the log there is no job."""
    drawn(served, browser)
    slide(browser, 0.7)
    browser.until(lambda: "Running 2" in " ".join(browser.text().split()), "both run")
    assert browser.violations() == []
    slide(browser, 0)
    browser.shows("No job had been submitted by then")
    browser.run(ESCAPE)
    browser.shows("2 runs, 3 waits")


def test_an_empty_pool_says_how_to_submit_a_first_job(served: ServedFolder, browser: Browser) -> None:
    """And shows the job once it is submitted."""
    browser.driver.get(f"{served.start()}/#/")
    browser.shows("2 nodes are ready")
    browser.shows("steepest submit -- python train.py")
    assert browser.violations() == []
    served.append(*running("first", "n1"))
    browser.shows("first")
    browser.shows("Full nodes")


def test_the_strip_shows_the_past(served: ServedFolder, browser: Browser) -> None:
    """At the beginning of the log there is no job; back at its end they are there again. By keyboard alone."""
    address = filled(served)
    browser.driver.get(f"{address}/#/jobs")
    browser.shows("3 of 3 jobs")
    slide(browser, 0)
    browser.shows("0 of 0 jobs")
    browser.shows("the past")
    browser.run(ESCAPE)
    browser.shows("3 of 3 jobs")

    browser.run("document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '4', bubbles: true }))")
    browser.shows("with plans, limits and categories")
    assert browser.run("return location.hash") == "#/decisions"


def two_policies(served: ServedFolder) -> None:
    """A job that finished under one policy, and one that finished and one that failed under the next."""
    for number, (job, at_ms) in enumerate((("a", 8_000), ("b", 15_000), ("c", 16_000))):
        if number == 1:
            served.append(
                c.PoolConfigured(parameters=PoolParameters(flowcon=FlowConParameters(on=True))), later_ms=9_000
            )
        served.append(*submitted(job), later_ms=1_000 * number)
        served.append(c.Tick(counted_ms=at_ms - 3_000), *running(job, "n1")[2:], later_ms=at_ms - 4_000)
        outcome = c.Outcome.FAILED if job == "c" else c.Outcome.FINISHED
        stopped = c.ReplicaStopped(job=job, incarnation=1, node="n1", exit_status=int(job == "c"))
        served.append(c.Tick(counted_ms=1_000 + at_ms), stopped, c.JobEnded(job=job, outcome=outcome), later_ms=at_ms)
    served.append(*running("d", "n2"), later_ms=16_500)


def test_the_first_view_says_whether_the_system_is_well(served: ServedFolder, browser: Browser) -> None:
    """That no system runs; under which of two policies jobs waited less; a gateway that is away."""
    two_policies(served)
    browser.driver.get(f"{served.start()}/#/")
    browser.shows("no system runs on the pool")
    browser.shows("75 % under specon (1 other jobs)")
    browser.shows("1 failed")
    assert browser.violations() == []
    served.kill()
    browser.shows("The gateway does not answer. This is the pool as it was at")
    browser.shows("the gateway does not answer; this is the pool of")


def test_a_page_that_needs_a_token_asks_for_it(served: ServedFolder, browser: Browser) -> None:
    """And shows nothing before."""
    served.append(*submitted("secret"))
    tokens = served.folder.root / "tokens"
    tokens.touch(0o600)
    tokens.write_text("read " + "r" * 20 + "\n")
    address = served.start(STEEPEST_GATEWAY_TOKENS=str(tokens))
    browser.driver.get(f"{address}/#/jobs")
    browser.shows("asks for a token")
    assert "secret" not in browser.text()
    browser.run(
        "const i = document.querySelector('input[name=token]'); i.value = arguments[0]; i.form.requestSubmit();",
        "r" * 20,
    )
    browser.shows("secret")


BUTTON = "return [...document.querySelectorAll('main button')].find((one) => one.innerText === arguments[0])"
TYPE = "const i = document.querySelector('main input[name=token]'); i.value = arguments[0]; i.form.requestSubmit();"


def press(browser: Browser, label: str) -> None:
    """Press the button of that name once it is there."""
    browser.until(lambda: browser.run(BUTTON, label), f"there is a button {label}")
    browser.run(f"{BUTTON.removeprefix('return ')}.click()", label)


def open_with_token(browser: Browser, address: str, token: str) -> None:
    """Open the page as one who has given it a token."""
    browser.driver.get("about:blank")
    browser.driver.get(address)
    browser.run("sessionStorage.setItem('steepest-token', arguments[0]); location.reload();", token)


def test_a_job_is_changed_after_a_question_that_says_the_price(served: ServedFolder, browser: Browser) -> None:
    """A token is asked for where it is needed; the answer, or the error, is where the question was."""
    address = filled(served)
    browser.driver.get("about:blank")
    browser.driver.get(f"{address}/#/job/a")
    browser.run("sessionStorage.clear(); location.reload()")
    press(browser, "suspend")
    browser.shows("this needs a token")
    assert browser.violations() == []
    browser.run(TYPE, served.token)
    alert = "return document.querySelector('[role=alert]')?.innerText ?? ''"
    browser.until(lambda: "cannot save" in browser.run(alert), "why it cannot be suspended")
    press(browser, "move")
    browser.until(lambda: "cannot be checkpointed" in browser.run(alert), "why it cannot be moved")
    press(browser, "cancel")
    browser.shows("How far it is is unknown")
    browser.shows("steepest cancel a")
    assert browser.run("return document.activeElement.innerText") == "No"
    assert browser.violations() == []
    press(browser, "No")
    browser.until(lambda: not browser.run("return document.querySelector('.ask')"), "the question is gone")
    assert browser.run("return document.activeElement.innerText") == "cancel"
    press(browser, "priority")
    browser.shows("No step of it is lost.")
    press(browser, "Yes, priority")
    browser.shows("has the priority high")
    press(browser, "cancel")
    press(browser, "Yes, cancel")
    browser.shows("will be cancelled as soon as a system runs on the pool")
    with Client(address) as client:
        assert client.job("a").priority_class == "high"
        assert "JobCancelRequested" in [event.type for event in client.events(limit=1_000)]


TRACEBACK = b"""step 7
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    train()
RuntimeError: loss is nan
atexit: bye
"""


def test_a_failed_job_says_first_what_it_failed_with(served: ServedFolder, browser: Browser) -> None:
    """Its traceback stands before its curve; then the end of its output, as text, and how to see it in a terminal."""
    served.append(*running("a", "n1"))
    printing(served, "a", 1, TRACEBACK + b"<img src=x onerror=alert(1)>\n")
    stopped = c.ReplicaStopped(job="a", incarnation=1, node="n1", exit_status=1)
    served.append(stopped, c.JobEnded(job="a", outcome=c.Outcome.FAILED, reason="exit status 1"))
    open_with_token(browser, f"{served.start()}/#/job/a", served.token)
    browser.shows("all of it was printed")
    error = browser.run("return document.querySelector('pre.error').innerText")
    assert error.startswith("Traceback") and error.endswith("RuntimeError: loss is nan")  # noqa: PT018
    said = browser.text()
    assert said.index("What it failed with") < said.index("<img src=x onerror") < said.index("Loss")
    assert "steepest logs a --follow" in said
    assert browser.violations() == []


def test_what_a_job_prints_appears_while_it_runs(served: ServedFolder, browser: Browser) -> None:
    """Nobody reloads; a token is asked for, because output may hold secrets."""
    served.append(*running("a", "n1"))
    file = printing(served, "a", 1, b"epoch 1\n")
    address = served.start()
    browser.driver.get("about:blank")
    browser.driver.get(f"{address}/#/job/a")
    browser.run("sessionStorage.clear(); location.reload()")
    browser.shows("What a job prints may hold secrets")
    assert browser.violations() == []
    browser.run(TYPE, served.token)
    browser.shows("epoch 1")
    with file.open("ab") as output:
        output.write(b"epoch 2\n")
    browser.shows("epoch 2")
    assert "What it failed with" not in browser.text()


def test_limits_are_a_step_line_and_one_decision_a_minute(served: ServedFolder, browser: Browser) -> None:
    """In a chart of its own; each is there once the line is opened, with why."""
    served.append(*running("a", "n1"), measured("a", 1, 5.0))
    for number in range(4):
        limit = c.JobLimit(job="a", incarnation=1, cpu_m=500 * (1 + number), growth_list=c.GrowthList.NEW)
        because = c.LimitsBecause(rule="FlowCon: Algorithm 1")
        served.append(
            c.LimitsPlanned(plan=f"l{number}", node="n1", limits=(limit,), because=because),
            c.LimitsApplied(plan=f"l{number}", node="n1", job="a", incarnation=1, cpu_m=limit.cpu_m),
        )
    address = served.start()
    browser.driver.get(f"{address}/#/job/a")
    browser.shows("CPU limit of a replica")
    label = "return document.querySelectorAll('main [role=img]')[1].getAttribute('aria-label')"
    assert browser.run(label) == "CPU limit of a replica of a: 4 changes, now 2000m"
    folded = "return [...document.querySelectorAll('li.folded summary')].map((one) => one.innerText)"
    assert sum("limits" in line for line in browser.run(folded)) in {1, 2}  # the clock may pass a minute
    browser.run("for (const one of document.querySelectorAll('li.folded details')) one.open = true")
    browser.shows("why, and what else")
    assert browser.violations() == []


def test_a_node_is_drained_and_opened_again(served: ServedFolder, browser: Browser) -> None:
    """The row shows it, and that jobs run on there."""
    address = filled(served)
    open_with_token(browser, f"{address}/#/nodes", served.token)
    press(browser, "drain")
    browser.shows("1 job runs on there, and no step is lost.")
    assert browser.violations() == []
    press(browser, "Yes, drain")
    browser.shows("gets no more jobs; a still there")
    browser.shows("n1\tdrained")
    press(browser, "undrain")
    press(browser, "Yes, undrain")
    browser.shows("takes jobs again")
    browser.shows("n1\ttakes jobs")


def rows(browser: Browser) -> list[str]:
    """The names in the table of jobs, in its order, with the headers of its groups."""
    found: list[str] = browser.run(
        "return [...document.querySelectorAll('.jobs tbody tr')].map((row) => row.querySelector('th').innerText)"
    )
    return found


def test_jobs_are_sorted_grouped_and_filtered_as_the_address_says(served: ServedFolder, browser: Browser) -> None:
    """So that a view can be sent to somebody; running jobs come first; a choice of the page changes the address."""
    served.append(*submitted("w", queue="night", array="s"), *running("a", "n1", queue="night"), *running("b", "n2"))
    address = served.start()
    browser.driver.get(f"{address}/#/jobs")
    browser.until(lambda: rows(browser) == ["a", "b", "w"], "running first")
    press(browser, "job")
    press(browser, "job")
    browser.until(lambda: rows(browser) == ["w", "b", "a"], "sorted")
    assert browser.run("return location.hash") == "#/jobs?sort=-job"
    browser.driver.get(f"{address}/#/jobs?group=queue&phase=running")
    browser.until(lambda: rows(browser) == ["queue default 1", "b", "queue night 1", "a"], "grouped")
    browser.shows("2 of 3 jobs")
    assert browser.violations() == []


def test_trials_are_sorted_by_how_they_stand(served: ServedFolder, browser: Browser) -> None:
    """The best first; where no job is a trial, there is no such column."""
    served.append(*submitted("other"))
    address = served.start()
    browser.driver.get(f"{address}/#/jobs?sort=rung")
    browser.until(lambda: rows(browser) == ["other"], "a job")
    headers = "return document.querySelector('.jobs thead').innerText"
    assert "rung" not in browser.run(headers)
    for job in ("bad", "best", "good", "nan"):
        served.append(*running(job, "n1", array="s", rungs=c.Rungs(first=10)))
    for job, rung, value in (("good", 0, 0.4), ("best", 0, 0.5), ("best", 1, 0.45), ("nan", 0, None), ("bad", 0, 0.6)):
        served.append(c.RungReached(job=job, incarnation=1, rung=rung, at=10 * 3**rung, value=value))
    browser.until(lambda: rows(browser) == ["best", "good", "bad", "nan", "other"], "sorted")
    assert "rung" in browser.run(headers)
    browser.shows("1: 0.45")
    browser.shows("0: not finite")
    assert browser.violations() == []


def test_chosen_jobs_have_their_curves_in_one_chart_and_are_changed_together(
    served: ServedFolder, browser: Browser
) -> None:
    """Beside them the parameters in which they differ."""
    for number, rate in enumerate(("0.1", "0.2")):
        job = f"a{number}"
        spec = c.JobSpec(command=("train", "--lr", rate, "--epochs", "9"), requests=Resources(cpu_m=1))
        served.append(c.JobSubmitted(job=job, request=job, spec=spec), c.JobAdmitted(job=job, request=job))
        served.append(*(measured(job, interval, 5.0 / interval) for interval in range(1, 5)), later_ms=1_000)
    address = served.start()
    open_with_token(browser, f"{address}/#/jobs?x=time&y=log&smooth=some", served.token)
    for box in range(2):
        browser.until(lambda: browser.run("return document.querySelectorAll('.jobs input').length") == 2, "two rows")
        browser.run("document.querySelectorAll('.jobs input')[arguments[0]].click()", box)
    browser.shows("2 chosen")
    assert "jobs=a0%2Ca1" in browser.run("return location.hash")
    table = "return document.querySelector('.chosenjobs .scroll table')?.innerText ?? ''"
    browser.until(lambda: "0.1" in browser.run(table) and "0.2" in browser.run(table), "the rates")
    assert "epochs" not in browser.run(table)
    browser.until(lambda: browser.run("return document.querySelector('.u-legend')?.innerText.includes('a1')"), "curves")
    assert browser.violations() == []
    press(browser, "hold")
    browser.shows("hold 2 jobs?")
    press(browser, "Yes, hold")
    browser.shows("a1 is held")
    browser.shows("waiting, held")


def test_two_recordings_have_their_timelines_one_above_the_other(browser: Browser) -> None:
    """On one scale, with what came of each; the page says that it shows a recording, and has nothing to press."""
    with viewed("tests/golden/moves", "--against", "tests/golden/stay") as address:
        browser.driver.get(f"{address}/#/compare")
        browser.shows("Completion times")
        browser.until(lambda: browser.run("return document.querySelectorAll('.timeline').length") == 2, "two timelines")
        browser.shows("Nothing in it changes any more.")
        browser.run("document.querySelector('.timeline').focus()")
        browser.run(PRESS, "+")
        assert browser.violations() == []
        browser.driver.get(f"{address}/#/nodes")
        browser.shows("takes jobs")
        assert "drain" not in browser.text()
    browser.complaints()


@pytest.mark.slow
def test_two_thousand_jobs_stay_usable(served: ServedFolder, browser: Browser) -> None:
    """The filter finds one of them, and the page still follows the pool."""
    served.append(*(event for number in range(2_000) for event in running(f"job-{number}", f"n{1 + number % 2}")))
    address = served.start()
    browser.driver.get(f"{address}/#/jobs")
    browser.shows("2000 of 2000 jobs")
    browser.run(
        "const filter = document.getElementById('filter'); filter.value = 'job-1999';"
        "filter.dispatchEvent(new Event('input', { bubbles: true }));"
    )
    browser.shows("1 of 2000 jobs")
    last = served.append(measured("job-1999", 1, 0.125))
    browser.until(lambda: browser.position() == last + 1, "the page is where the log is")
    browser.driver.get(f"{address}/#/cluster")
    browser.shows("all 500")  # a node has at most 250 replicas; the others wait
    browser.shows("and 1492 more")
    last = served.append(measured("job-1999", 2, 0.125))
    browser.until(lambda: browser.position() == last + 1, "the page is where the log is")

"""What the planner takes a job to need: where its log has only epochs, says nothing, or is about to end."""

from __future__ import annotations

from statistics import fmean

import pytest
from tests.harness.scenarios.folded_pool import joined
from tests.harness.scenarios.shared_host import SharedHost

from steepest.policies.steepest.fair.fair_copies import SAME_SIZE
from steepest.policies.steepest.node_plan import SLACK


def test_a_job_whose_log_has_only_epochs_is_known_as_one_with_steps_is() -> None:
    """Its size, its rest and its fair end, as soon as two epochs were seen."""
    host = SharedHost(2.0)
    for name, says in (("steps", "step"), ("epochs", "epoch")):
        host.begin_job(name, says, 40)
    host.train(5)
    epochs, steps = host.facts("epochs"), host.facts("steps")
    assert not epochs.unknown
    assert epochs.size == pytest.approx(20.0, rel=0.1)
    assert epochs.size == pytest.approx(steps.size, rel=0.1)
    assert epochs.left is not None
    assert epochs.fair_end_s is not None
    assert epochs.due_s is not None


def test_equal_jobs_in_steps_and_in_epochs_end_before_those_that_say_nothing() -> None:
    """On average; and none ends later than under fair sharing, where all end after 150 s."""
    host = SharedHost(2.0)
    for number in range(2):
        for says in ("nothing", "epoch", "step"):
            host.begin_job(f"{says}-{number}", says, 100)
    host.train(400)
    ends = {says: [host.ended[f"{says}-{number}"] for number in range(2)] for says in ("nothing", "epoch", "step")}
    assert max(fmean(ends["step"]), fmean(ends["epoch"])) < fmean(ends["nothing"])
    assert max(host.ended.values()) <= 1.03 * 150


def test_what_is_promised_is_as_large_as_what_is_planned() -> None:
    """Promises by smaller sizes leave a node no slack, and jobs that still learn wait for all others."""
    host, measured = SharedHost(2.0), 0
    for number in range(4):
        host.begin_job(f"job-{number}", "step", 10, step_ms=4_000)
    for _ in range(20):
        host.train(2)
        for name in host.trained.keys() - host.ended.keys():
            size, copy = host.facts(name).size, host.planner.state.fair.jobs[name]
            if size is not None:
                measured += 1
                assert copy.size == pytest.approx(size, rel=SAME_SIZE)
    assert measured


def test_a_job_that_has_done_its_last_step_may_end() -> None:
    """It evaluates, saves and exits by its fair part, three plans later; by the floor it would take half a minute."""
    host = SharedHost(0.3)
    host.begin_job("last", "step", 12, exit_ms=300)
    for number in range(5):
        host.begin_job(f"other-{number}", "step", 60)
    while host.trained["last"].done < 12:
        host.share()
    at_s = host.seconds
    host.train(60)
    assert host.ended["last"] - at_s <= 0.3 / (0.3 / 6) + 3 * host.view.parameters.steepest.plan_every_ms / 1000


def test_a_job_that_works_on_after_its_last_step_is_of_unknown_size() -> None:
    """It is served as one that is about to end for a tenth of its size, and gives back what it got by that."""
    host = SharedHost(2.0)
    host.begin_job("stays", "step", 20, exit_ms=100_000)
    host.begin_job("other", "step", 200)
    host.train(60)
    found = host.facts("stays")
    assert (found.unknown, found.left) == (True, None)
    assert host.limits["stays"] is not None


def test_a_new_job_leads_until_its_speed_is_measured_whatever_it_does_first() -> None:
    """Three seconds of imports beside five jobs: by the time on the clock it would never lead."""
    host = SharedHost(2.0)
    for number in range(5):
        host.begin_job(f"old-{number}", "step", 400)
    host.train(40)
    host.begin_job("new", "step", 10, start_ms=3_000)
    host.train(7)
    assert host.trained["new"].used_ms > 6_500
    host.train(20)
    assert host.ended["new"] - 40 <= 8


def test_on_a_host_that_gives_less_than_it_declares_who_says_most_ends_first() -> None:
    """It declares 2 cores and gives 0.6: under fair sharing all end after 600 s."""
    host = SharedHost(2.0, 0.6)
    for number in range(2):
        for says in ("nothing", "epoch", "step"):
            host.begin_job(f"{says}-{number}", says, 120)
    host.train(700)
    ends = {says: [host.ended[f"{says}-{number}"] for number in range(2)] for says in ("nothing", "epoch", "step")}
    assert fmean(ends["step"] + ends["epoch"]) < fmean(ends["nothing"])
    assert max(host.ended.values()) <= 1.03 * 600


def test_jobs_that_starve_show_no_demand() -> None:
    """Six that could each use all of 0.6 cores get 0.28 together: their fair ends are those of 0.28 cores.

    They are promised a little earlier, because only some of 40 steps have been measured.
    """
    host = SharedHost(0.6, 0.28, limited=False)
    for number in range(6):
        host.begin_job(f"job-{number}", "step", 40)
    host.train(60)
    assert {job.demand for job in host.planner.state.running.values()} == {None}
    assert host.planner.state.gives["n1"][0] == pytest.approx(0.28, rel=0.1)
    ends_s = [host.facts(f"job-{number}").fair_end_s for number in range(6)]
    assert all(0.8 <= end_s / (6 * 20 / 0.28) <= 1.03 for end_s in ends_s if end_s is not None)
    assert None not in ends_s


def test_a_node_whose_jobs_can_use_no_more_gives_what_it_declares() -> None:
    """Two equal jobs use half of it; a third one finds the rest."""
    host = SharedHost(4.0)
    for number in range(2):
        host.begin_job(f"job-{number}", "step", 400, demand=1.0)
    host.train(60)
    host.begin_job("third", "step", 400)
    host.train(30)
    assert host.planner.state.gives["n1"][0] == pytest.approx(4.0, rel=0.1)
    assert host.trained["third"].used_ms > 30 * 0.9 * 2_000


def test_a_node_that_gives_less_is_not_taken_to_recover_while_its_limited_jobs_find_no_more() -> None:
    """It declares 2 cores and gives 0.6, for eight minutes; then it gives all, and the jobs find it."""
    host = SharedHost(2.0, 0.6)
    for number in range(2):
        for says in ("nothing", "step"):
            host.begin_job(f"{says}-{number}", says, 2_000)
    host.train(480)
    assert host.planner.state.gives["n1"][0] == pytest.approx(0.6, rel=0.1)
    host.gives = 2.0
    host.train(300)
    assert host.planner.state.gives["n1"][0] > 0.7


def idle_share(host: SharedHost, seconds: int) -> float:
    """The share of the CPU that the jobs could use, and that idles, over so many seconds."""
    before_ms = sum(job.used_ms for job in host.trained.values())
    host.train(seconds)
    could = min(host.gives, sum(job.demand or host.cores for job in host.trained.values()))
    used_ms = sum(job.used_ms for job in host.trained.values()) - before_ms
    return 1 - used_ms / (1_000 * seconds * could)


ONE_CORE_EACH = [[1.0] * 3, [1.0] * 8, [1.0] * 12]
SEVERAL_CORES = [[0.5, 0.7, 8.0, 8.0], [1.0, 2.0], [2.0, 3.0, 4.0], [1.5, 2.5, 3.5, 4.5]]


@pytest.mark.parametrize("every_s", [0, 3, 20])
@pytest.mark.parametrize("demands", [*ONE_CORE_EACH, *SEVERAL_CORES])
def test_no_limit_idles_cpu_that_a_job_could_use(demands: list[float], every_s: int) -> None:
    """Jobs that use a part of the node show it below limits that they do not reach, and beside others that use the same."""
    host = SharedHost(8.0, yields=False)
    for number, demand in enumerate(demands):
        host.begin_job(f"job-{number}", "step", 10_000 + 100 * number, demand=demand)
        host.train(every_s)
    host.train(60)
    assert idle_share(host, 200) < SLACK


@pytest.mark.parametrize("demands", [[1.0] * 6, [2.0] * 4])
def test_a_node_that_was_short_recovers_beside_jobs_that_cannot_use_all_of_it(demands: list[float]) -> None:
    """They have what they want, and limited ones use their limits: that says nothing against more."""
    host = SharedHost(8.0, 2.0, yields=False)
    for number, demand in enumerate(demands):
        host.begin_job(f"job-{number}", "step", 100_000 + 20 * number, demand=demand)
    host.train(120)
    assert host.planner.state.gives["n1"][0] < 2.5
    host.gives = 8.0
    host.train(1_500)
    assert host.planner.state.gives["n1"][0] > 5.0


def test_a_node_that_joins_again_with_more_cpu_gives_it() -> None:
    """What it gave before says nothing of it."""
    host = SharedHost(2.0, yields=False)
    for number in range(6):
        host.begin_job(f"job-{number}", "step", 10_000, demand=1.0)
    host.train(60)
    host.cores = host.gives = 8.0
    host.fold(joined("n1", 8_000))
    host.train(20)
    assert idle_share(host, 60) < 0.04


def test_a_step_that_is_under_way_is_left_until_it_was_reported() -> None:
    """Half of one, of three core-seconds, at least: a job that is taken to be done gets no more than its floor."""
    host, found = SharedHost(2.0), []
    host.begin_job("job", "step", 5, step_ms=3_000)
    host.begin_job("other", "step", 400)
    while "job" not in host.ended:
        host.share()
        if "job" not in host.ended and host.trained["job"].done < 5:
            found.append(host.facts("job").left)
    known = [left for left in found if left is not None]
    assert known
    assert min(known) >= 0.9 * 1.5


@pytest.mark.parametrize("gives", [1.2, 0.6])
def test_jobs_that_import_first_and_announce_end_no_later_than_silent_ones(gives: float) -> None:
    """On average, of each length, on a host that declares 2 cores; and none ends later than its fair end."""
    host, imports_s, lengths = SharedHost(2.0, gives), 3, (12, 40)
    for says in ("nothing", "step", "epoch"):
        for steps in lengths:
            host.begin_job(f"{says}-{steps}", says, steps, step_ms=1_000, start_ms=1_000 * imports_s)
    host.train(400)
    short, long = lengths
    fair_s = {short: 6 * (imports_s + short) / gives}
    fair_s[long] = fair_s[short] + 3 * (long - short) / gives
    for steps in lengths:
        silent, *others = (host.ended[f"{says}-{steps}"] for says in ("nothing", "step", "epoch"))
        assert fmean(others) < silent
        assert max(silent, *others) <= 1.03 * fair_s[steps] + 1

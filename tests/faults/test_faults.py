"""The world of faults: schedules that once broke something, a few that never did, and that a seed is a run."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.faults import reached
from tests.faults.draw import RESTATING, drawn
from tests.faults.library_copy import Copy
from tests.faults.measured import unmeasured
from tests.faults.mutate import MUTANTS, Hunted, Kept, hunted
from tests.faults.probes import probed
from tests.faults.processes import TOPOLOGIES
from tests.faults.run import guarded, seldom, table
from tests.faults.schedule import Schedule, parsed

from steepest.events.loss import JobWatched, LossReported
from steepest.events.parameters import SpeConParameters
from steepest.events.received import Received

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
ROOT = Path(__file__).parents[2]
SHORT_FORM, LONG_FORM, EACH = 5, 500, 5
"""Seeds that are played in each form, and in one test."""

LONG_ALONE = [pytest.param(first, marks=pytest.mark.long) for first in range(SHORT_FORM, LONG_FORM, EACH)]
SECOND = SpeConParameters(interval_ms=1_000)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_what_once_broke_holds(path: Path) -> None:
    """A schedule that once broke something breaks nothing now."""
    assert guarded(parsed(path.read_text())).broken == ()


@pytest.mark.slow
@pytest.mark.parametrize("first", [*range(0, SHORT_FORM, EACH), *LONG_ALONE])
def test_drawn_schedules_break_nothing(first: int) -> None:
    """After any schedule all jobs have ended, and nothing of what must hold is broken; `make faults` draws more."""
    broken = {seed: outcome.broken for seed in range(first, first + EACH) if (outcome := guarded(drawn(seed))).broken}

    assert broken == {}


@pytest.mark.parametrize("seed", [3, 4])
def test_a_schedule_is_its_text(seed: int) -> None:
    """A schedule that is written down and read again is the same; of two seeds one has faults that wait for their steps."""
    schedule = drawn(seed)

    assert parsed(str(schedule)) == schedule


def test_a_fault_strikes_at_the_step_that_it_names() -> None:
    """A plan about no job is made about one that it fits, and faults wait for its steps: to begin, to act, to be over."""
    outcome = guarded(
        parsed("""
            world seed=1 topology=doubled more=5
            node n1 cpu=1000
            node n2 cpu=1000
            0.5 submit j1 steps=12
            migrate.checkpoint@1+0 call-lost migrator
            migrate.stop@1+0 kill migrator
            migrate.start.over@1+0 stop placer
            3 move saves=yes
        """)
    )

    assert outcome.broken == ()
    assert {("call-lost", "migrate.checkpoint"), ("kill", "migrate.stop"), ("stop", "migrate.start")} <= {
        *outcome.struck
    }


def test_each_process_of_every_topology_is_struck(schedules: list[Schedule]) -> None:
    """Replicas among them, by themselves."""
    named: dict[str, dict[str, None]] = {topology: {} for topology in TOPOLOGIES}
    for schedule in schedules:
        faults = [
            action.about for action in schedule.actions if action.verb in {"kill", "pause", "clock", "upgrade", "stop"}
        ]
        named[schedule.world["topology"]] |= dict.fromkeys(faults)

    assert {name: sorted(found) for name, found in named.items()} == {
        name: sorted(processes) for name, processes in TOPOLOGIES.items()
    }


def test_replay_is_judged_of_half_of_the_worlds(schedules: list[Schedule]) -> None:
    """So many have no fault after which the log may be decided again to something else; the others have more of them."""
    verbs = [[action.verb for action in schedule.actions if action.verb in RESTATING] for schedule in schedules]

    assert sum(not found for found in verbs) >= len(schedules) / 2
    assert sum(map(len, verbs)) > len(schedules)


def test_what_is_judged_is_said() -> None:
    """Of a world without faults all is; of one that was upgraded or lost records, some is not."""
    jobs = "world seed=1\nnode n1 cpu=1000\n0.5 submit j1 steps=4\n"
    calm, upgraded, lossy = (
        guarded(parsed(jobs + fault)) for fault in ("", "2 upgrade migrator", "2 power-loss lost=1")
    )

    assert (calm.broken, upgraded.broken, lossy.broken) == ((), (), ())
    assert calm.judged == ("replay", "measured", "one-place", "no-decision-twice")
    assert upgraded.judged == ("one-place", "no-decision-twice")
    assert lossy.judged == ("no-decision-twice",)


def test_only_what_was_upgraded_is_rolled_back() -> None:
    """What was not is upgraded before; and what is already is only started again."""
    outcome = guarded(
        parsed("""
            world seed=1 topology=split
            node n1 cpu=1000
            0.5 submit j1 steps=30
            2 roll-back deciders
            2 upgrade monitor
            12 upgrade monitor
        """)
    )
    struck = [kind for (kind, _), count in outcome.struck.items() for _ in range(count)]

    assert outcome.broken == ()
    assert sorted(struck) == ["roll-back", "stop", "upgrade", "upgrade"]


def test_topics_age_behind_the_snapshots() -> None:
    """Their first records and all letters are gone: who starts then, also as another release, goes on with the rest."""
    outcome = guarded(
        parsed("""
            world seed=1 topology=split snapshots=8
            node n1 cpu=1000
            node n2 cpu=1000
            0.5 submit j1 steps=40
            0.5 submit j2 steps=40
            3 garbage loss
            15 age monitor
            20 kill deciders
            22 upgrade monitor
            28 upgrade deciders
        """)
    )

    assert outcome.broken == ()
    assert "age" in {kind for kind, _ in outcome.struck}


def test_a_job_that_reports_and_is_not_measured_is_noticed() -> None:
    """From the third report on that is an interval behind the second; not where its clock has just been set back."""
    times = (0, 900, 1_800, 2_000, -9_000, -8_900, -7_950, -7_800)
    events: list[Any] = [JobWatched(job="a", pool="p", incarnation=1, metric="loss", parameters=SECOND)]
    events += [LossReported(job="a", incarnation=1, step=step, value=1.0) for step in range(len(times))]
    losses = [
        Received(event=event, topic="loss", partition=0, offset=offset, at_ms=10_000 + at_ms)
        for offset, (event, at_ms) in enumerate(zip(events, (0, *times), strict=True))
    ]

    assert list(unmeasured(losses, {(0, "a"): [4, 8]})) == []
    assert list(unmeasured(losses, {(0, "a"): [4]})) == ["a reports, and no growth was measured: loss 5 to 8"]
    assert list(unmeasured(losses[:4], {})) == []


def test_pairs_that_were_struck_too_seldom_are_named() -> None:
    """Those below a bound, the rarest first; without one, those that were never struck."""
    often = {(kind, step): 5 for _, kind, step in seldom({})}
    struck = {**often, ("kill", "clear.stop"): 3, ("age", "place.start"): 0}

    assert seldom(struck, 4) == [(0, "age", "place.start"), (3, "kill", "clear.stop")]
    assert seldom(struck, 0) == []
    assert "age in place.start was struck least: 0 times" in table(struck)
    assert "clear.stop 3" not in table(struck)
    assert "clear.stop 3" in table(struck, 4)


@pytest.mark.skipif(shutil.which("patch") is None, reason="there is no program patch: apt-get install patch")
def test_every_mutant_applies(tmp_path: Path) -> None:
    """The library has moved on under no patch, and what each makes of it is still Python."""
    copy = Copy(tmp_path)
    patches = sorted(MUTANTS.glob("*.patch"))
    for patch in patches:
        copy.patch(patch)
        for name in re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.MULTILINE):
            compile((tmp_path / name).read_text(), name, "exec")
        copy.patch(patch, back=True)

    assert len(patches) > 30


def test_a_hunt_goes_on_where_it_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A mutant is hunted with the seeds with which it acts differently, and from where it got away; once found, no more."""
    copy, patch, kept = Copy(tmp_path), min(MUTANTS.glob("*.patch")), Kept("code", 100)
    kept.reached = [[patch.stem] if seed in {103, 119, 121, 137, 138, 170} else ["another"] for seed in range(100, 200)]
    played: list[Sequence[int]] = []

    def hunt(seeds: Sequence[int], _: int) -> tuple[int, str] | None:
        played.append(seeds)
        return (137, "j1 has not ended") if 137 in played[-1] else None

    monkeypatch.setattr(copy, "hunt", hunt)
    for seeds in (20, 20, 50, 90):
        kept.mutants[patch.stem] = hunted(copy, patch, kept, seeds, 1)

    assert played == [[103, 119], [121, 137, 138]]
    assert kept.mutants[patch.stem] == Hunted(38, differs=4, what="j1 has not ended")


@pytest.mark.parametrize(
    ("unharmed", "mutant", "differing"),
    [
        ("    return x > 3 and x != 9", "    return x != 9", [0, 1, 2, 3]),
        ("    return x > 3 and x != 9", "    return x > 3", [9]),
        ("    return (lambda: x > 3)()", "    return (lambda: 10 / (x - 2) > 3)()", [2, 3, 6, 7, 8, 9]),
        ("    if (y := x) > 3:\n        print(y)", "    if False and (y := x) > 3:\n        print(y)", range(10)),
        ("    if x > 3:\n        x += 1\n    return x", "    if x > 3:\n        pass\n    return x", range(4, 10)),
        ("    if x > 3:\n        print(x)\n        return x", "    if x > 3:\n        return x", range(4, 10)),
        ("    return x", "    return x\n", []),
    ],
)
def test_probes_say_where_a_mutant_differs(unharmed: str, mutant: str, differing: Sequence[int]) -> None:
    """A module with probes does what it did, and says for which arguments a mutant of it would do something else."""
    unharmed, mutant = f"def f(x):\n{unharmed}", f"def f(x):\n{mutant}"
    space: dict[str, Any] = {}
    exec(probed(unharmed, {"it": mutant}).text, space)  # noqa: S102 - the test's own text
    plain: dict[str, Any] = {}
    exec(unharmed, plain)  # noqa: S102 - the test's own text

    found = []
    for argument in range(10):
        reached.REACHED.clear()
        assert space["f"](argument) == plain["f"](argument)
        found += [argument] if reached.REACHED else []

    assert found == list(differing)


def test_what_an_import_runs_differs_everywhere() -> None:
    """A change of a module's constants is in every run."""
    assert probed("A = 1\n\ndef f(x=A):\n    return x", {"it": "A = 1\n\ndef f(x=2):\n    return x"}).everywhere == (
        "it",
    )


def test_every_mutant_has_its_probes(tmp_path: Path) -> None:
    """The probes of all mutants stand in one copy of the library, which is still a library."""
    gc.collect()  # CPython 3.11 cannot parse while the finalizer of a failed task formats a traceback, which parses as well
    copy = Copy(tmp_path)
    everywhere = copy.put_probes(sorted(MUTANTS.glob("*.patch")))

    texts = "".join(path.read_text() for path in (tmp_path / "libs").rglob("*.py"))
    for patch in MUTANTS.glob("*.patch"):
        assert f"'{patch.stem}'" in texts or patch.stem in everywhere
    for path in (tmp_path / "libs").rglob("*.py"):
        compile(path.read_text(), path, "exec")


def test_a_seed_is_a_run_under_any_hash_seed() -> None:
    """The same seed makes the same records byte for byte, under any hash seed."""
    command = (
        "from tests.faults.draw import drawn; from tests.faults.world import played; print(played(drawn(2)).digest)"
    )
    made = [
        subprocess.run(
            [sys.executable, "-c", command],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]

    assert made[0] == made[1] != ""


@pytest.fixture(scope="module")
def schedules() -> list[Schedule]:
    """As many as show what is drawn how often."""
    return [drawn(seed) for seed in range(200)]

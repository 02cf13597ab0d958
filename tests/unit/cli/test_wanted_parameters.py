"""``up`` says where a policy will predict run times without the traffic that they follow from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.cli.conftest import Holding

from steepest.app.configurator import due_configuration
from steepest.app.settings.reading import read_settings
from steepest.app.state_folder import Installation, NodeSpec, PoolSpec, StateFolder
from steepest.cli.system.wanted_parameters import wanted, wanted_aloud
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import Normalisation, PoolParameters, QueueParameters, SpeConParameters
from steepest.policies.named import POLICIES, named, under
from steepest.view.cluster_view import ClusterView

NOTE = "no traffic is counted, and run times come from announced totals alone\n"
BY_RUN_TIME = ("pickyman", "predicted-sjf", "predicted-srtf")


def new_folder(tmp_path: Path, **more: Any) -> StateFolder:
    """An installation on which no system has run."""
    folder = StateFolder(tmp_path / "state")
    folder.create(Installation(nodes=(NodeSpec("n1", Resources(1_000)),), **more))
    return folder


@pytest.mark.parametrize("policy", POLICIES)
def test_without_a_storage_it_is_said_that_nothing_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str
) -> None:
    """Under each policy that orders jobs by predicted run times, by its name, and under no other."""
    settings = read_settings({"state_dir": new_folder(tmp_path).root, "parameters.policy": policy}, environ={})

    asked = wanted_aloud(settings)

    said = capsys.readouterr()
    assert f"  policy {policy}, queue " in said.out
    assert said.err.endswith(NOTE) if policy in BY_RUN_TIME else said.err == ""
    assert said.err.startswith(f"{policy} predicts run times") is (policy in BY_RUN_TIME)
    assert asked == wanted(settings)


def test_with_a_storage_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What jobs read is counted there."""
    folder = new_folder(tmp_path, storage="http://storage:8080/data")
    asked = wanted_aloud(read_settings({"state_dir": folder.root, "parameters.policy": "pickyman"}, environ={}))

    assert asked is not None
    assert named(asked) == "pickyman"
    assert capsys.readouterr().err == ""


def test_the_policy_of_the_log_counts_too(holding: Holding, capsys: pytest.CaptureFixture[str]) -> None:
    """It is in force at each start, also where the command names none."""
    parameters = under("predicted-srtf", PoolParameters())
    folder = holding(c.PoolConfigured(parameters=parameters))

    assert wanted_aloud(read_settings({"state_dir": folder.root}, environ={})) is None
    assert capsys.readouterr().err.startswith("predicted-srtf predicts run times")


def test_of_several_pools_it_is_said_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each has a policy of its own."""
    more = PoolSpec(name="other", nodes=(NodeSpec("n2", Resources(1_000)),))
    folder = new_folder(tmp_path, pools=(more,))
    settings = read_settings({"state_dir": folder.root, "parameters.policy": "pickyman"}, environ={})

    for pool in settings.pools:
        wanted_aloud(msgspec.structs.replace(settings, pool=pool))

    said = capsys.readouterr()
    assert [line.partition(": ")[0] for line in said.err.splitlines()] == ["pool default", "pool other"]
    assert [line.split("  ")[1].partition(": ")[0] for line in said.out.splitlines()] == ["pool default", "pool other"]


def test_growth_of_a_new_pool_is_measured_without_spikes(tmp_path: Path) -> None:
    """Whether a start asks for anything or not; the published reading is a setting."""
    folder = new_folder(tmp_path)

    def wanted_of(**parameters: str) -> PoolParameters | None:
        asked = {f"parameters.{name}": value for name, value in parameters.items()}
        return wanted(read_settings({"state_dir": folder.root, **asked}, environ={}))

    assert wanted_of() is None
    asked, published = wanted_of(alpha="0.02"), wanted_of(normalisation="max")
    assert asked is not None
    assert published is not None
    assert (asked.specon.alpha, asked.specon.normalisation) == (0.02, Normalisation.SETTLED)
    assert published == under("steepest", PoolParameters())
    new = due_configuration(ClusterView(), None)
    assert new is not None
    assert new.parameters.specon == SpeConParameters(normalisation=Normalisation.SETTLED)


def test_an_older_pool_keeps_the_reading_that_it_has(holding: Holding) -> None:
    """Until a start asks for another one."""
    folder = holding()
    settings = read_settings({"state_dir": folder.root, "parameters.alpha": "0.02"}, environ={})
    asked = wanted(settings)

    assert asked is not None
    assert asked.specon.normalisation is Normalisation.MAX


def test_a_restart_says_what_is_in_force(holding: Holding, capsys: pytest.CaptureFixture[str]) -> None:
    """Policy, queue, preemption and interval come from the log, so they are said where the command names none."""
    parameters = under("specon", PoolParameters(queueing=QueueParameters(policy="priority", preempt=True)))
    folder = holding(c.PoolConfigured(parameters=parameters))

    assert wanted_aloud(read_settings({"state_dir": folder.root}, environ={})) is None

    assert "policy specon, queue priority (preempts), interval 30 s" in capsys.readouterr().out

"""``steepest pool``: what a folder's pools are, how they are added, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.scenarios.log_builder import LogBuilder
from tests.harness.system.rig import events_of
from tests.unit.cli.conftest import Holding

from steepest.app.pool_changes import add_nodes, read_pools
from steepest.app.settings.reading import read_settings
from steepest.app.settings.toml_file import MOST_FILE_BYTES
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import NodeSpec, StateFolder
from steepest.cli.main import main
from steepest.errors import InputError
from steepest.events.cluster import LogOpened
from steepest.events.common import Resources
from steepest.log.base import TopicPartition
from steepest.log.files.file_log import FileLog

TWO = """
[[pool]]
name = "vision"
nodes = ["v1=2:8Gi", "v2=1"]
queues = ["images", "video"]

[[pool]]
name = "text"
nodes = ["t1=0.5"]
"""


def call(folder: StateFolder, *arguments: str) -> Result:
    """Run ``steepest pool`` on a folder."""
    command, *rest = arguments
    return CliRunner().invoke(main, ["pool", command, "--state", str(folder.root), *rest])


def written(tmp_path: Path, text: str) -> str:
    """A file of pools."""
    path = tmp_path / "pools.toml"
    path.write_text(text)
    return str(path)


def test_pools_are_added_once_in_their_order(holding: Holding, tmp_path: Path) -> None:
    """A pool's partition is its place, so that a second call changes nothing and a later pool comes last."""
    folder = holding()
    file = written(tmp_path, TWO)
    first = call(folder, "apply", "--json", file)
    again = call(folder, "apply", "--json", file)
    assert call(folder, "add", "audio", "--node", "a1=1", "--queue", "sound").exit_code == 0
    listed = json.loads(call(folder, "list", "--json").stdout)

    assert json.loads(first.stdout) == json.loads(again.stdout) == listed[:3]
    assert [(pool["pool"], pool["partition"]) for pool in listed] == [
        ("default", "cluster/0"),
        ("vision", "cluster/1"),
        ("text", "cluster/2"),
        ("audio", "cluster/3"),
    ]
    assert listed[1]["nodes"] == {"v1": "2000m CPU, 8192 MiB", "v2": "1000m CPU"}
    found = folder.read()
    assert [found.pool_of_queue(queue) for queue in ("video", "sound", "other")] == ["vision", "audio", "default"]


def test_queues_of_a_pool_can_change_and_its_nodes_cannot(holding: Holding, tmp_path: Path) -> None:
    """Jobs run on the nodes; a queue only says where the next job goes."""
    folder = holding()
    call(folder, "apply", written(tmp_path, TWO))
    moved = call(folder, "apply", written(tmp_path, '[[pool]]\nname = "vision"\nqueues = ["images"]'))
    other = call(folder, "apply", written(tmp_path, '[[pool]]\nname = "vision"\nnodes = ["v9=1"]'))

    assert moved.exit_code == 0
    assert (folder.read().pool_of_queue("video"), folder.read().pool_of_queue("images")) == ("default", "vision")
    assert other.exit_code == 2
    assert "other nodes" in other.output


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[pool]]\n", "name"),
        ('[[pool]]\nname = "x"', "no nodes"),
        ('[[pool]]\nname = "a b"\nnodes = ["a=1"]', "$.pool[0].name"),
        ('[[pool]]\nname = "x"\nnodes = ["a"]', "$.pool[0].nodes"),
        ('[[pool]]\nname = "x"\nnodes = ["a=1"]\nsize = 3', "size"),
        ('[[pool]]\nname = "x"\nnodes = ["n1=1"]', "the node n1 would be there twice"),
        ('[[pool]]\nname = "x"\nnodes = ["a=1", "a=2"]', "the node a would be there twice"),
        ('[[pool]]\nname = "default"\nqueues = ["q"]', "first pool"),
        (2 * '[[pool]]\nname = "x"\nnodes = ["a=1"]\n', "two pools have the same name"),
        (
            '[[pool]]\nname = "x"\nnodes = ["a=1"]\nqueues = ["q"]\n[[pool]]\nname = "y"\nnodes = ["b=1"]\nqueues = ["q"]',
            "the queue q would be there twice",
        ),
        ("pool = 3", "$.pool"),
        ("not toml", "pools.toml"),
        ("\x00", "pools.toml"),
        ("#" * (MOST_FILE_BYTES + 1), "larger than 1 MiB"),
    ],
)
def test_a_wrong_file_is_refused_and_changes_nothing(holding: Holding, tmp_path: Path, text: str, why: str) -> None:
    """The message names the field."""
    folder = holding()
    before = folder.read()
    done = call(folder, "apply", written(tmp_path, text))

    assert done.exit_code == 2, done.output
    assert why in str(done.output)
    assert folder.read() == before


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    """Nothing that a file may hold ends in another error."""
    path = tmp_path_factory.getbasetemp() / "fuzzed-pools.toml"
    path.write_bytes(data)
    try:
        read_pools(path)
    except InputError as error:
        named = str(path) in str(error)
    else:
        named = True
    assert named


def test_a_folder_with_one_pool_is_as_earlier_releases_know_it(holding: Holding) -> None:
    """One with several names a version that they refuse with a clear message."""
    folder = holding()
    one = json.loads((folder.root / "steepest.json").read_text())
    call(folder, "add", "more", "--node", "m1=1")
    several = json.loads((folder.root / "steepest.json").read_text())

    assert one["version"] == 1
    assert "pools" not in one
    assert several["version"] == 2
    assert folder.of_pool(folder.read(), "default").cluster == folder.cluster
    assert folder.of_pool(folder.read(), "more").cluster != folder.cluster


async def test_a_log_in_files_grows_and_keeps_what_it_holds(holding: Holding) -> None:
    """The new partitions have an identity; those that were there keep their records."""
    submitted = [one.event for one in LogBuilder().opened(n1=1_000).running("a", "n1").records]
    folder = await asyncio.to_thread(holding, *(one for one in submitted if not isinstance(one, LogOpened)))
    log = FileLog.open(folder.log, read_only=True)
    before = [one.event for one in await events_of(log)]
    await log.close()
    assert (await asyncio.to_thread(call, folder, "add", "more", "--node", "m1=1")).exit_code == 0
    log = FileLog.open(folder.log, read_only=True)
    try:
        new = [await events_of(log, TopicPartition(topic, 1)) for topic in ("cluster", "heartbeats")]
        assert [one.event for one in await events_of(log)] == before
        assert [type(one.event) for (one,) in new] == [LogOpened, LogOpened]
        assert log.topics["loss"] == 4
    finally:
        await log.close()


async def test_pools_are_added_while_no_system_runs_on_files(holding: Holding) -> None:
    """A running system would not see the new partitions of a log in files."""
    folder = await asyncio.to_thread(holding)
    with folder.sole():
        refused = await asyncio.to_thread(call, folder, "add", "more", "--node", "m1=1")

    assert refused.exit_code == 2
    assert "runs on" in refused.output
    assert folder.read().pools == ()


def test_a_node_is_added_to_a_folder_that_no_system_runs_on(holding: Holding) -> None:
    """It is there from the next start on; what is wrong, or comes while a system runs, changes nothing."""
    folder = holding()

    def add(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["nodes", "add", "--state", str(folder.root), *arguments])

    assert add("n2=2:4Gi", "n3=1").exit_code == 0
    assert [(one.name, one.capacity.cpu_m) for one in folder.read().nodes] == [("n1", 1000), ("n2", 2000), ("n3", 1000)]
    assert call(folder, "add", "other", "--node", "o1=1").exit_code == 0
    assert json.loads(add("--pool", "other", "o2=1", "--json").stdout) == {"pool": "other", "nodes": ["o1", "o2"]}
    before = folder.read()
    for arguments, why in ((("o1=1",), "the node o1 would be there twice"), ((), "name a node")):
        assert why in add(*arguments).stderr
    with folder.sole():
        assert "jobs run on meanwhile" in str(refused(lambda: add_nodes(settings_of(folder), "default", (NODE,))).hint)
    engine = msgspec.structs.replace(NODE, engine="unix:///run/docker.sock")
    assert "has emulated nodes" in str(refused(lambda: add_nodes(settings_of(folder), "default", (engine,))))
    assert folder.read() == before


NODE = NodeSpec("late", Resources(500))


def settings_of(folder: StateFolder) -> Settings:
    """Those of a folder."""
    return read_settings({"state_dir": folder.root}, environ={})


def refused(act: Callable[[], object]) -> InputError:
    """Why something is refused."""
    with pytest.raises(InputError) as error:
        act()
    return error.value

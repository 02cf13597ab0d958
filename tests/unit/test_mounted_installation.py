"""A file describes an installation: what it says, what is refused, and how an error names the field."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.app.settings.mounted_installation import read_installation
from steepest.app.settings.reading import read_settings
from steepest.errors import InputError

TWO = """
cluster = "kubernetes=training/shared:/mnt/shared"
image = "trainer:3"
heartbeat_ms = 1000
kinds = ["JobSet"]
namespaces = ["team-a", "team-b"]

[[pool]]
name = "default"
selector = "pool=default"

[[pool]]
name = "vision"
nodes = ["v1=2:8Gi"]
queues = ["images"]
"""
ONE = '[[pool]]\nname = "default"\nnodes = ["n1=1"]\n'


def test_pools_have_selected_or_listed_nodes_of_one_cluster(tmp_path: Path) -> None:
    """Every service reads the same from it."""
    (tmp_path / "i.toml").write_text(TWO)
    found = read_installation(tmp_path / "i.toml")

    assert found.layout.pools == ("default", "vision")
    assert [found.selector(pool) for pool in found.layout.pools] == ["pool=default", None]
    assert found.kubernetes("vision") == "kubernetes://training/shared:/mnt/shared"
    assert found.nodes_of("vision")[0].engine == found.kubernetes("vision")
    assert found.in_containers("default")
    assert not found.isolates("default")
    assert (found.kinds, found.namespaces) == (("JobSet",), ("team-a", "team-b"))
    assert (found.image, found.heartbeat_ms, found.pool_of_queue("images")) == ("trainer:3", 1000, "vision")
    assert not found.has_agents
    (tmp_path / "i.toml").write_text("node_agents = true\n" + TWO)
    assert read_installation(tmp_path / "i.toml").has_agents


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "pool"),
        ("pool = []", "describes no pool"),
        ('[[pool]]\nname = "a"', r"\$.pool\[0\]: it has either nodes or a selector"),
        ('[[pool]]\nname = "a"\nselector = ""', r"\$.pool\[0\].selector: it selects nodes of a cluster"),
        ('[[pool]]\nname = "a"\nnodes = ["n"]', r"\$.pool\[0\].nodes: 'n' is no node"),
        (ONE + ONE, "a pool is there twice"),
        (ONE + ONE.replace("default", "b"), "a node is there twice"),
        (ONE + 'queues = ["q"]', "is the first pool"),
        ('cluster = "docker"\n' + ONE, r"\$.cluster: write it like kubernetes="),
        ("heartbeat_ms = 0\n" + ONE, r"heartbeat_ms"),
        ("node_agents = true\n" + ONE, r"\$.node_agents: agents are for nodes of a cluster"),
        ('node_agents = true\nstorage = "http://s:1/"\n' + TWO.lstrip(), r"\$.storage: an agent cannot count"),
        ("what = 1\n" + ONE, "unknown field"),
        ('kinds = ["CronJob"]\n' + ONE, "CronJob"),
        ('namespaces = ["Team"]\n' + ONE, r"\$.namespaces"),
        ('namespaces = ["team", "team"]\n' + ONE, "a namespace is there twice"),
        ("[[pool", "i.toml"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    """The error names the file and the field."""
    (tmp_path / "i.toml").write_text(text)
    with pytest.raises(InputError, match=why) as refused:
        read_installation(tmp_path / "i.toml")
    assert str(tmp_path / "i.toml") in str(refused.value)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    """Nothing else comes of it."""
    path = tmp_path_factory.mktemp("any") / "i.toml"
    path.write_bytes(content)
    with pytest.raises(InputError):
        read_installation(path)


def test_it_needs_kafka(tmp_path: Path) -> None:
    """A log in files would be another one for each service."""
    (tmp_path / "i.toml").write_text(ONE)
    named = {"STEEPEST_INSTALLATION_FILE": str(tmp_path / "i.toml")}
    with pytest.raises(InputError, match="on a Kafka cluster, and none is named"):
        read_settings(environ=named)

    assert read_settings(environ={**named, "STEEPEST_KAFKA": "kafka:9092"}).pools == ("default",)

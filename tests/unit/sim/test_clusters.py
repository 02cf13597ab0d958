"""Clusters by name and by file."""

from __future__ import annotations

from pathlib import Path

import pytest

from steepest.errors import InputError
from steepest.events.common import Resources
from steepest_lab.sim.cluster_spec import SimNode
from steepest_lab.sim.clusters import open_cluster, read_cluster


def test_gpu_nodes_have_more_than_the_peers_nodes() -> None:
    """8 GPUs come with at least 92 CPUs and 520 GB, so that GPUs alone decide what fits."""
    cluster = open_cluster("8x8gpu")

    assert [node.name for node in cluster.nodes] == [f"node-{number}" for number in range(8)]
    assert {node.capacity for node in cluster.nodes} == {Resources(cpu_m=96_000, memory_mib=524_288, gpus=8)}
    assert Resources(92_000, 520 * 10**9 // 2**20, 8).fits(cluster.nodes[0].capacity)
    assert (cluster.gpus, cluster.source) == (64, "8x8gpu")


def test_cpu_nodes() -> None:
    """8 GiB for each core."""
    assert open_cluster("4x16cpu").nodes[3] == SimNode(name="node-3", capacity=Resources(16_000, 131_072, 0))


def test_a_sum_of_parts() -> None:
    """Parts stand in their order, and the nodes are numbered on."""
    nodes = open_cluster("2x8gpu+1x4cpu").nodes

    assert [(node.name, node.capacity.gpus, node.capacity.cpu_m) for node in nodes] == [
        ("node-0", 8, 96_000),
        ("node-1", 8, 96_000),
        ("node-2", 0, 4_000),
    ]


def test_numbers_have_equal_digits() -> None:
    """Sorting names sorts nodes, also in large clusters."""
    names = [node.name for node in open_cluster("10000x64cpu").nodes]

    assert (names[0], names[-1]) == ("node-0000", "node-9999")
    assert names == sorted(names)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "cluster '': is not"),
        ("8x8", "cluster '8x8': is not"),
        ("8x8tpu", "is not"),
        ("-1x8gpu", "is not"),
        ("1.5x8gpu", "is not"),
        ("٤x8gpu", "is not"),
        ("8x8gpu+", r"cluster '' \(of '8x8gpu\+'\): is not"),
        ("0x8gpu", "count: 0 is not between 1 and 100000"),
        ("200000x8gpu", "count: 200000 is not between"),
        ("8x0gpu", "a node needs at least one"),
        ("8x0cpu", "a node needs at least one"),
        ("8x99999gpu", "gpus: 99999 is not between"),
        ("60000x1cpu+60000x1cpu", "120000 nodes are more than 100000"),
        ("9" * 5000 + "x1gpu", "is not"),
    ],
)
def test_an_invalid_name_is_refused(name: str, said: str) -> None:
    """The error names the part and its fault."""
    with pytest.raises(InputError, match=said):
        open_cluster(name)


def written(folder: Path, text: str) -> Path:
    """A file with that content."""
    path = folder / "cluster.toml"
    path.write_text(text)
    return path


def test_a_file_of_uneven_nodes(tmp_path: Path) -> None:
    """One table per kind of node; defaults are those of the named clusters."""
    path = written(
        tmp_path,
        """
        shared_storage_mib_s = 3000

        [[node]]
        name = "fast"
        count = 2
        gpus = 4
        speed = 1.5
        storage_mib_s = 2000
        mtbf_s = 86400
        repair_s = 60

        [[node]]
        name = "old"
        cpus = 8
        memory_gib = 16
        contention = 0.12
        speed = 0.5

        [[node]]
        cpus = 2.5
        """,
    )
    cluster = open_cluster(str(path))

    assert cluster.nodes == (
        *(
            SimNode(
                name=name,
                capacity=Resources(48_000, 262_144, 4),
                speed=1.5,
                storage_mib_s=2000.0,
                mtbf_s=86_400.0,
                repair_s=60.0,
            )
            for name in ("fast-0", "fast-1")
        ),
        SimNode(name="old", capacity=Resources(8_000, 16_384, 0), contention=0.12, speed=0.5),
        SimNode(name="node-3", capacity=Resources(2_500, 20_480, 0)),
    )
    assert cluster.source == str(path)
    assert cluster.shared_storage_mib_s == 3000.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("node = 3", r"\$.node"),
        ("[[node]", "does not describe a cluster"),
        ("[[nodes]]\ncpus = 1", "nodes"),
        ("[[node]]\ncpu = 1", "cpu"),
        ("node = []", "has no nodes"),
        ("[[node]]\nspeed = 2.0", "node 0, cpus: a node needs gpus or cpus"),
        ("[[node]]\ncpus = 1\n[[node]]\ncpus = -1", "node 1, cpus: -1.0 is not between"),
        ("[[node]]\ncpus = nan", "node 0, cpus: nan is not between"),
        ("[[node]]\ngpus = 2.5", r"\$.node\[0\].gpus"),
        ("[[node]]\ncpus = 1\ncontention = -0.1", "node 0, contention: -0.1 is not between"),
        ("[[node]]\ncpus = 1\nspeed = 0", "node 0, speed: 0.0 is not between"),
        ("[[node]]\ncpus = 1\nstorage_mib_s = 0", "node 0, storage_mib_s: 0.0 is not between"),
        ("shared_storage_mib_s = nan\n[[node]]\ncpus = 1", "shared_storage_mib_s: nan is not between"),
        ("[[node]]\ncpus = 1\nmtbf_s = -1", "node 0, mtbf_s: -1.0 is not between"),
        ("[[node]]\ncpus = 1\nrepair_s = nan", "node 0, repair_s: nan is not between"),
        ("[[node]]\ncpus = 1\nmemory_gib = inf", "node 0, memory_gib: inf is not between"),
        ("[[node]]\ncpus = 1\ncount = 0", "node 0, count: 0 is not between"),
        ("[[node]]\ncpus = 1\nname = 'Big Node'", r"\$.node\[0\].name"),
        (f"[[node]]\ncpus = 1\nname = '{'n' * 63}'\ncount = 2", "node 0, name: "),
        ("[[node]]\ncpus = 1\nname = 'a'\n[[node]]\ncpus = 1\nname = 'a'", "two nodes are called a"),
        ("[[node]]\ncpus = 1\nname = 'node-1'\n[[node]]\ncpus = 1", "two nodes are called node-1"),
        ("[[node]]\ncpus = 1\nname = 'a-1'\n[[node]]\ncpus = 1\nname = 'a'\ncount = 2", "two nodes are called a-1"),
    ],
)
def test_a_file_without_a_cluster_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """The error names the file, the table and the field."""
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=said) as caught:
        read_cluster(path)

    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A name with a file's extension is read as a file."""
    with pytest.raises(InputError, match=r"none\.toml: cannot be read"):
        open_cluster(str(tmp_path / "none.toml"))

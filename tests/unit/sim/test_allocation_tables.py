"""Measured tables from outside: interpolation between their rows, and errors for wrong tables."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.harness.examples import scaled

from steepest.errors import InputError
from steepest_lab.sim.allocation.tables import Tables, interpolate

from .samples import real_data

DATA = real_data()
FILES = {
    "placements.csv": "placement,local_bsz,step_time,sync_time\n1,8,0.5,0.0\n1,16,0.9,0.0\n12,8,0.7,0.1\n12,16,1.1,0.2\n",
    "scalability.csv": "num_nodes,num_replicas,local_bsz,step_time,sync_time\n6,6,8,1,0.5\n6,12,16,2,0.9\n8,9,8,1.5,1\n",
    "validation-64.csv": "progress,iteration,metric,grad_sqr,grad_var\n100,100,0.1,1.0,3.0\n210,200,0.2,1.0,5.0\n",
    "validation-128.csv": "progress,iteration,metric,grad_sqr,grad_var\n105,60,0.1,3.0,1.0\n200,120,0.2,1.0,1.0\n",
}


def written(folder: Path, **changed: str) -> Path:
    """A folder of small tables; ``placements="…"`` gives one another content."""
    for name, text in FILES.items():
        (folder / name).write_text(changed.get(name.removesuffix(".csv").replace("-", "_"), text))
    return folder


def test_rows_and_between_them(tmp_path: Path) -> None:
    """An epoch ends at the least progress of all batch sizes; a placement is the same however it is turned."""
    tables = Tables(written(tmp_path))

    assert tables.ends == [100, 200]
    assert tables.noise(0, 96) == (2.0, 2.0)
    assert tables.iteration(1, 96) == 160
    assert tables.step((2, 1), 12) == tables.step((1, 2), 12) == pytest.approx((0.9, 0.15))
    assert (tables.local_least, tables.local_most) == (8, 16)


@pytest.mark.parametrize(("at", "value"), [(-1.0, 5.0), (0.0, 5.0), (0.5, 6.0), (1.0, 7.0), (9.0, 7.0)])
def test_interpolation(at: float, value: float) -> None:
    """Interpolation is linear between neighbours, and constant outside."""
    assert interpolate(at, [0, 1], [5.0, 7.0]) == value


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"placements": "placement,local_bsz,step_time\n1,8,0.5\n"}, "sync_time"),
        ({"placements": "placement,local_bsz,step_time,sync_time\n1,8,0,0\n"}, "never measured"),
        ({"placements": "placement,local_bsz,step_time,sync_time\n10,8,1,0\n"}, "never measured"),
        ({"placements": "placement,local_bsz,step_time,sync_time\n1,8,nan,0\n"}, "line 2, column step_time"),
        ({"validation_64": "progress,iteration,metric,grad_sqr,grad_var\n100,100,0.1,1,3\n"}, "a line for every epoch"),
        ({"validation_64": FILES["validation-64.csv"].replace("210", "90")}, "does not grow"),
    ],
)
def test_wrong_tables_are_refused(tmp_path: Path, changed: dict[str, str], part: str) -> None:
    """The error names what is wrong."""
    with pytest.raises(InputError, match=part):
        Tables(written(tmp_path, **changed))


def test_a_local_batch_beyond_the_rows_is_refused(tmp_path: Path) -> None:
    """Nothing is extrapolated beyond the measured rows."""
    with pytest.raises(InputError, match=r"no step time for 1\+2 GPUs with a local batch of 17"):
        Tables(written(tmp_path)).step((1, 2), 17)


def test_flat_tables_are_refused(tmp_path: Path) -> None:
    """All points on one line leave nothing to interpolate between."""
    flat = "num_nodes,num_replicas,local_bsz,step_time,sync_time\n6,6,8,1,0.5\n"
    line = "placement,local_bsz,step_time,sync_time\n1,8,0.5,0.0\n1,16,0.9,0.0\n"

    with pytest.raises(InputError, match="no space is spanned"):
        Tables(written(tmp_path, scalability=flat, placements=line)).step((1,) * 6, 8)


def test_without_scipy_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only placements on more nodes than the tables name need it."""
    monkeypatch.setitem(sys.modules, "scipy.interpolate", None)
    tables = Tables(written(tmp_path))

    assert tables.step((1,), 8) == (0.5, 0.0)
    with pytest.raises(InputError) as caught:
        tables.step((1,) * 6, 8)
    assert caught.value.code == "missing-extra"
    assert "steepest-lab[reports]" in caught.value.hint


@given(
    name=st.sampled_from(sorted(FILES)),
    place=st.integers(0, 400),
    cut=st.integers(0, 30),
    put=st.one_of(st.text(max_size=20), st.sampled_from(["-1", "1e999", "nan", ",", "\n", "0", "\0", '"'])),
)
@settings(max_examples=scaled(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_tables_are_read_or_refused(tmp_path: Path, name: str, place: int, cut: int, put: str) -> None:
    """Any file gives sound numbers or an InputError."""
    written(tmp_path)
    text = FILES[name]
    place %= len(text)
    (tmp_path / name).write_bytes((text[:place] + put + text[place + cut :]).encode(errors="surrogatepass"))

    try:
        tables = Tables(tmp_path)
        step, sync = tables.step((1, 2), 12)
        tables.step((1,) * 6, 8)
    except InputError:
        return

    assert step > 0
    assert 0 <= sync <= step
    assert all(0 < end < float("inf") for end in tables.ends)


@pytest.mark.skipif(DATA is None, reason="no real tables: set STEEPEST_DATA to a folder that holds pollux/")
@pytest.mark.parametrize(
    ("application", "placement", "local", "expected"),
    [
        ("cifar10", (4, 2), 342, (0.268777, 0.020076)),
        ("deepspeech2", (4, 4, 4), 54, (1.807918, 0.199113)),
        ("bert", (4, 2), 11, (2.391726, 1.596846)),
        ("imagenet", (4,) * 6, 134, (0.745332, 0.059927)),
        ("imagenet", (4, 3, 3, 3, 3), 200, (1.055127, 0.039272)),
        ("imagenet", (4,) * 9, 178, (0.950601, 0.063057)),
        ("cifar10", (4, 2, 2, 2, 2), 342, (0.287784, 0.022333)),
    ],
)
def test_real_tables(application: str, placement: tuple[int, ...], local: int, expected: tuple[float, float]) -> None:
    """Step and synchronisation as the artifact's program looks them up."""
    pytest.importorskip("scipy", reason="pip install 'steepest-lab[reports]'")

    tables = Tables((DATA or Path()) / "pollux" / "traces" / application)

    assert tables.step(placement, local) == pytest.approx(expected, abs=5e-7)

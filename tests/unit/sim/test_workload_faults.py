"""One fault each: every reader refuses it and names its position."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from steepest.errors import InputError
from steepest_lab.sim.workloads.read import read_workload

from .samples import GAVEL, JSONL, MURI, OPENB, PHILLY, POLLUX, SACCT, SAMPLES, SHOCKWAVE, TIRESIAS, written


def refusal(folder: Path, text: str | bytes) -> str:
    """What the reader says about a file that it refuses; its first step is not empty."""
    path = written(folder, text)
    with pytest.raises(InputError) as caught:
        read_workload(path)
    assert str(caught.value).startswith(str(path))
    assert caught.value.hint
    return str(caught.value).removeprefix(str(path)).lstrip(":, ")


CELLS = [
    (MURI, "\n1,8,12000", "\n1,0,12000", "line 3, column num_gpu: 0 is below 1"),
    (MURI, "\n1,8,12000", "\n1,8,-5", "line 3, column submit_time: -5.0 is below 0"),
    (MURI, "\n1,8,12000", "\n1,8,nan", "line 3, column submit_time: 'nan' is not a number"),
    (MURI, "\n1,8,12000", "\n1,8,1e400", "line 3, column submit_time: 'inf' is above 1e+13"),
    (MURI, "\n1,8,12000", "\n1,8,1_000", "line 3, column submit_time: '1_000' is not a number"),
    (MURI, ",400,bert", ",400.5,bert", "line 3, column iterations: '400.5' is not a whole number"),
    (MURI, ",400,bert", f",{'9' * 30},bert", "line 3, column iterations: '99"),
    (MURI, ",400,bert", f",{'9' * 5000},bert", "line 3, column iterations: '99"),
    (MURI, ",400,bert", ",٤٠٠,bert", "line 3, column iterations: '٤٠٠' is not a whole number"),
    (MURI, ",400,bert", ",400,", "line 3, column model_name: is empty"),
    (MURI, "190.5,1", "0,1", "line 3, column iteration_time: with 400 iterations the job takes 0 s"),
    (MURI, ",400,bert", ",999999999999999,bert", "line 3, column iteration_time: with 999999999999999 iterations"),
    (MURI, "bert,4,", "bert,four,", "line 3, column batch_size: 'four' is not a whole number"),
    (MURI, "\n2,1", "\n1,1", "line 4, column job_id: line 3 has a job 'job-1' already"),
    (MURI, "bert", "b" * 300, "line 3, column model_name: 'bbb"),
    (TIRESIAS, ",164,", ",0,", "line 2, column duration: the job takes no time"),
    (TIRESIAS, ",164,", ",-1,", "line 2, column duration: -1.0 is below 0"),
    (POLLUX, "cifar10,6", "cifar11,6", "line 2, column application: 'cifar11' is none of bert, cifar10"),
    (POLLUX, "cifar10,6", "cifar10,0", "line 2, column num_replicas: 0 is below 1"),
    (POLLUX, "ncf-1", "cifar10-0", "line 3, column name: line 2 has a job 'cifar10-0' already"),
    (POLLUX, "107", "soon", "line 2, column time: 'soon' is not a number"),
    (PHILLY, "2017-10-09 07:01:55", "yesterday", "line 2, column timestamp: 'yesterday' is not a time like"),
    (PHILLY, "2017-10-09 07:01:55", "2017-13-09 07:01:55", "line 2, column timestamp: "),
    (PHILLY, "2017-10-09 07:01:55", "9017-10-09 07:01:55", "line 2, column timestamp: 9017-10-09 07:01:55 is not"),
    (PHILLY, "2017-10-09 07:01:55", "0017-10-09 07:01:55", "line 2, column timestamp: 0017-10-09 07:01:55 is not"),
    (PHILLY, "55,66.0,1", "55,-66.0,1", "line 2, column duration: -66.0 is below 0"),
    (PHILLY, "55,66.0,1", "55,66.0,-1", "line 2, column num_gpus: -1 is below 0"),
    (OPENB, "12500,20", "10,20", "line 2, column deletion_time: 10 is before the scheduled_time, 20"),
    (OPENB, "900,427", "900,426", "line 3, column scheduled_time: 426.0 is below 427.0"),
    (OPENB, "12000,16384", "12000,x", "line 2, column memory_mib: 'x' is not a whole number"),
    (OPENB, "openb-pod-1", "openb-pod-0", "line 3, column name: line 2 has a job 'openb-pod-0' already"),
    (SACCT, "2026-03-01T08:00:30", "Unknown", "line 6, column Submit: 'Unknown' is not a time like"),
    (SACCT, "|90|", "|-90|", "line 6, column ElapsedRaw: -90 is below 0"),
    (SACCT, "mem=1.50G", "mem=lots", "line 6, column AllocTRES: mem=lots is not an amount"),
    (SACCT, "cpu=3,", "cpu=3.5,", "line 6, column AllocTRES: cpu=3.5 is not an amount"),
    (SACCT, "cpu=3,", "cpu=9999999999,", "line 6, column AllocTRES: cpu=9999999999 is above"),
    (SACCT, "4712_3|", "4711|", "line 6, column JobID: line 2 has a job 'job-4711' already"),
    (GAVEL, "A3C\t", "A4C\t", "line 2, column job_type: no throughput is known of 'A4C' at scale factor 1"),
    (GAVEL, "A3C\t", "CycleGAN\t", "line 2, column job_type: no throughput is known of 'CycleGAN'"),
    (GAVEL, "\t500\t", "\t0\t", "line 2, column total_steps: 0 is below 1"),
    (GAVEL, "\t60.5", "\t-1", "line 2, column arrival_time: -1.0 is below 0"),
    (GAVEL, "\t60.5", "", "line 2, column arrival_time: the line has 9 cells where 10 must stand"),
    (SHOCKWAVE, "\t7.5", "\t0", "line 2, column duration: 0.0 is below 0.001"),
    (SHOCKWAVE, "\t60.5", "\t-1", "line 2, column arrival_time: -1.0 is below 0"),
    (GAVEL, "\t60.5", "\t60.5\t1", "line 2, column 11: the line has 11 cells where 10 must stand"),
]


@pytest.mark.parametrize(("sample", "sound", "faulty", "said"), CELLS, ids=[case[3][:50] for case in CELLS])
def test_a_faulty_cell(tmp_path: Path, sample: str, sound: str, faulty: str, said: str) -> None:
    """The error names an invalid cell by line and column."""
    assert sample.count(sound) == 1
    assert refusal(tmp_path, sample.replace(sound, faulty)).startswith(said)


FIELDS = [
    ('"work_s":100.5', '"work_s":-1', "line 1, column work_s: -1.0 is not between"),
    ('"work_s":100.5', '"work_s":0', "line 1, column work_s: 0.0 is not between"),
    ('"work_s":100.5', '"work_s":1e300', "line 1, column work_s: 1e+300 is not between"),
    ('"work_s":100.5', '"work_s":1e999', "line 1"),
    ('"work_s":100.5', '"work_s":NaN', "line 1: is not a job: "),
    ('"work_s":100.5', '"work_s":"long"', "line 1: is not a job: Expected `float`, got `str` - at `$.work_s`"),
    (',"work_s":100.5', "", "line 1: is not a job: Object missing required field `work_s`"),
    ('"gpus":2', '"gpus":-2', "line 1: is not a job: Expected `int` >= 0 - at `$.requests.gpus`"),
    ('"gpus":2', '"gpus":2000000', "line 1, column requests.gpus: 2000000 is not between 0 and 1e+06"),
    ('"gpus":2', '"gpu":2', "line 1, column requests.gpu: no job has such a field"),
    ('"replicas":3', '"replica":3', "line 2, column replica: no job has such a field"),
    ('"replicas":3', '"replicas":0', "line 2, column replicas: 0 is not between"),
    ('"iterations":50', f'"iterations":{10**16}', "line 2, column iterations: "),
    ('"family":"algoperf/wmt"', '"family":"none"', "line 2, column family: there is no loss family 'none'"),
    ('"replicas":3', '"fails_at":1.5', "line 2, column fails_at: 1.5 is not between 0 and 1"),
    ('"name":"second"', '"name":"first"', "line 2, column name: line 1 has a job 'first' already"),
    ('"name":"second"', '"name":""', "line 2, column name: is empty"),
    ('"name":"second"', f'"name":"{"x" * 300}"', "line 2, column name: has 300 letters"),
    ('"team":"a"', f'"team":"{"x" * 300}"', "line 2, column team: has 300 letters"),
    ('"team":"a"', ",".join(f'"d{n}":""' for n in range(101)), "line 2, column details: has 101 entries"),
    ('{"name":"second"', '["name","second"', "line 2: is not a job: "),
    ('{"name":"second"', "[" * 100_000, "line 2: is not a job: "),
]


@pytest.mark.parametrize(("sound", "faulty", "said"), FIELDS, ids=[case[2][:50] for case in FIELDS])
def test_a_faulty_field(tmp_path: Path, sound: str, faulty: str, said: str) -> None:
    """The same for Steepest's own format."""
    assert JSONL.count(sound) == 1
    assert refusal(tmp_path, JSONL.replace(sound, faulty)).startswith(said)


@pytest.mark.parametrize("format_", [name for name in SAMPLES if name != "jsonl"])
def test_a_file_that_is_cut_off_in_a_line(tmp_path: Path, format_: str) -> None:
    """The last line lacks cells, and the first that it lacks is named."""
    text = SAMPLES[format_]
    last = text.count("\n")
    comma = {"gavel": "\t", "shockwave": "\t", "sacct": "|"}.get(format_, ",")
    said = refusal(tmp_path, text[: text.rindex(comma, 0, text.rindex(comma))])

    assert said.startswith(f"line {last}, column ")
    assert "cells where" in said


def test_an_object_that_is_cut_off(tmp_path: Path) -> None:
    """The same for Steepest's own format."""
    assert refusal(tmp_path, JSONL[:-20]).startswith("line 2: is not a job: Input data was truncated")


@pytest.mark.parametrize("format_", SAMPLES)
def test_a_gzip_file_that_is_cut_off(tmp_path: Path, format_: str) -> None:
    """Half a file is never taken for the whole."""
    packed = gzip.compress(SAMPLES[format_].encode())

    assert "damaged gzip file" in refusal(tmp_path, packed[:-9])
    assert "damaged gzip file" in refusal(tmp_path, packed[:5])
    assert "damaged gzip file" in refusal(tmp_path, packed[:-8] + b"\0\0\0\0" + packed[-4:])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (b"\x89PNG\r\n\x1a\n\xff\xfe", "line 1: is not UTF-8 text"),
        (MURI.encode() + b"\xff", "line 5: is not UTF-8 text"),
        (MURI.encode().replace(b"bert", b"be\0t"), "line 3: is binary, not text"),
        (b"Dear all,\n", "line 1: unrecognised workload format"),
        (b"42", "line 1: unrecognised workload format"),
        (b'"\n', "line 1: unrecognised workload format"),
        (
            MURI.replace("iteration_time", "speed").replace("duration", "x").encode(),
            "line 1: unrecognised workload format; of muri's columns the header lacks iteration_time",
        ),
        (MURI.replace("priority", "num_gpu").encode(), "line 1, column num_gpu: stands in the header twice"),
        (MURI.split("\n")[0].encode(), "has no jobs"),
        (OPENB.encode()[: OPENB.index("openb-pod-0")] + b"a,1,1,1,1,,,,1,1,\n", "has no jobs (1 × was"),
        (TIRESIAS.replace("vgg11", '"vgg11').encode(), "line 4: is not a row of a CSV table: unexpected end of data"),
        (TIRESIAS.replace("vgg11", "v" * 200_000).encode(), "line 3: is not a row of a CSV table: field larger"),
        (TIRESIAS.replace("\n1,8", "\n\n1,8,1").encode(), "line 4, column 8: the line has 8 cells where 7 must stand"),
        (b",,,,,,\n" + TIRESIAS.encode(), "line 1"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, content: bytes, said: str) -> None:
    """A file that is empty, binary, of another kind, or only a header is refused."""
    assert refusal(tmp_path, content).startswith(said)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Neither a missing file nor a folder is read."""
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            read_workload(path)


def test_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small gzip file may hold very much; no more than the bound is ever taken out of it."""
    monkeypatch.setattr("steepest_lab.sim.text.LARGEST_BYTES", 2**20)
    packed = gzip.compress(b"0" * 2**24)

    assert len(packed) < 2**15
    assert refusal(tmp_path, packed).startswith("holds more than 1 MiB")


def test_gavel_without_throughputs(tmp_path: Path) -> None:
    """The error for a trace without throughputs names the missing file and its place."""
    folder = tmp_path / "a" / "b" / "c" / "d"
    folder.mkdir(parents=True)
    (folder / "trace").write_text(GAVEL)
    with pytest.raises(InputError, match="needs the throughputs") as caught:
        read_workload(folder / "trace")

    assert "simulation_throughputs.json" in caught.value.hint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "is not a file of throughputs"),
        ("{", "is not a file of throughputs"),
        ('{"k80":{}}', "has no worker type v100"),
        ('{"v100":{"x":{"null":"fast"}}}', "v100.x.null: 'fast' is not a throughput"),
        ('{"v100":{"x":{"null":-1}}}', "v100.x.null: -1 is not a throughput"),
        ('{"v100":{"x":{}}}', "v100.x.null: None is not a throughput"),
    ],
)
def test_throughputs_that_are_none(tmp_path: Path, content: str, said: str) -> None:
    """The file of throughputs is from outside, too."""
    trace = written(tmp_path, GAVEL)
    (tmp_path / "simulation_throughputs.json").write_text(content)
    with pytest.raises(InputError) as caught:
        read_workload(trace)

    assert said in str(caught.value)
    assert "simulation_throughputs.json" in str(caught.value)

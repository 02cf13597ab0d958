"""What each reader makes of a sound file, which it knows by its content."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from steepest.events.common import Resources
from steepest_lab.sim.workload import SimJob
from steepest_lab.sim.workloads.read import open_workload, read_workload

from .samples import GAVEL, JSONL, MURI, OPENB, PHILLY, POLLUX, SACCT, SAMPLES, SHOCKWAVE, TIRESIAS, written


@pytest.mark.parametrize("format_", SAMPLES)
@pytest.mark.parametrize("name", ["trace.csv", "trace.csv.gz", "x.json", "noname"])
def test_the_content_determines_the_format(tmp_path: Path, format_: str, name: str) -> None:
    """A file is read by its content, under any name, compressed or not."""
    text = SAMPLES[format_]
    plain = read_workload(written(tmp_path, text, name))
    packed = read_workload(written(tmp_path, gzip.compress(text.encode()), name))

    assert plain.format == format_
    assert plain == packed
    assert plain.source == str(tmp_path / name)


@pytest.mark.parametrize("format_", SAMPLES)
def test_other_line_ends_and_a_byte_order_mark_change_nothing(tmp_path: Path, format_: str) -> None:
    """Files that went through other systems are the same workload."""
    text = SAMPLES[format_]
    plain = read_workload(written(tmp_path, text))

    assert read_workload(written(tmp_path, text.replace("\n", "\r\n"))) == plain
    assert read_workload(written(tmp_path, "\ufeff" + text)) == plain
    assert read_workload(written(tmp_path, "\n" + text.replace("\n", "\n\n"))) == plain
    assert read_workload(written(tmp_path, text.removesuffix("\n"))) == plain


@pytest.mark.parametrize("format_", ["muri", "tiresias", "pollux", "openb", "sacct", "jsonl"])
def test_jobs_stand_in_the_order_of_their_submission(tmp_path: Path, format_: str) -> None:
    """Rows may stand in any order; of equal times the source's order counts."""
    lines = SAMPLES[format_].splitlines(keepends=True)
    header = lines[: format_ != "jsonl"]
    rows = lines[len(header) :]
    straight = read_workload(written(tmp_path, SAMPLES[format_]))
    turned = read_workload(written(tmp_path, "".join(header + rows[::-1])))

    assert sorted(turned.jobs, key=lambda job: job.name) == sorted(straight.jobs, key=lambda job: job.name)
    assert [job.submit_s for job in turned.jobs] == sorted(job.submit_s for job in turned.jobs)


def test_columns_may_stand_in_any_order(tmp_path: Path) -> None:
    """A table is read by its header."""
    turned = "\n".join(",".join(reversed(line.split(","))) for line in POLLUX.splitlines())

    assert read_workload(written(tmp_path, turned)).jobs == read_workload(written(tmp_path, POLLUX)).jobs


def test_muri(tmp_path: Path) -> None:
    """Milliseconds; the work is iterations times iteration time, and the peer's factor is not in it."""
    first, second, third = read_workload(written(tmp_path, MURI)).jobs

    assert first == SimJob(
        name="job-0",
        submit_s=0.0,
        requests=Resources(gpus=4),
        work_s=886.0,
        iterations=1000,
        model="shufflenet_v2_x1_0",
        batch_size=128,
        details={
            "iterations": "1000",
            "iteration_time": "886",
            "num_gpu": "4",
            "model_name": "shufflenet_v2_x1_0",
            "duration": "886000",
        },
    )
    assert (second.submit_s, second.work_s, second.gpus) == (12.0, 76.2, 8)
    assert (second.name, third.name) == ("job-1", "job-2")


def test_tiresias(tmp_path: Path) -> None:
    """Seconds; the work is the duration."""
    jobs = read_workload(written(tmp_path, TIRESIAS)).jobs

    assert [(job.name, job.submit_s, job.work_s, job.gpus) for job in jobs] == [
        ("job-0", 0.0, 164.0, 1),
        ("job-1", 30.0, 147.0, 8),
        ("job-2", 53.0, 127.0, 2),
    ]
    assert [job.batch_size for job in jobs] == [None] * 3


def test_pollux(tmp_path: Path) -> None:
    """A replica has one GPU; the estimated work is that of the application's run, divided by the replicas."""
    first, second, third = read_workload(written(tmp_path, POLLUX)).jobs

    assert (first.name, first.submit_s, first.replicas, first.requests) == ("cifar10-0", 107.0, 6, Resources(gpus=1))
    assert [job.work_s for job in (first, second, third)] == [910.0, 47.0, 3215.0]
    assert first.details == {"application": "cifar10", "num_replicas": "6", "batch_size": "2048"}


def test_philly(tmp_path: Path) -> None:
    """The first submission is time zero, whichever line it stands in; a line's number names its job."""
    jobs = read_workload(written(tmp_path, PHILLY)).jobs

    assert [(job.name, job.submit_s, job.work_s, job.gpus) for job in jobs] == [
        ("job-1", 0.0, 2951.5, 8),
        ("job-0", 60.0, 66.0, 1),
        ("job-2", 86_460.0, 10.0, 2),
    ]
    assert jobs[1].details == {"cluster": "11cb48"}


def test_helios_and_acme(tmp_path: Path) -> None:
    """Their columns are found among others, and a job on CPUs alone is left out."""
    header = "job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
    rows = "7,u,8,64,1,COMPLETED,2020-04-01 00:01:00,x,x,300,5\n8,u,0,4,1,FAILED,2020-04-01 00:00:00,x,x,9,0\n"
    workload = read_workload(written(tmp_path, header + rows))

    assert [(job.submit_s, job.work_s, job.gpus) for job in workload.jobs] == [(0.0, 300.0, 8)]
    assert (workload.format, workload.skipped) == ("helios", {"asked for no GPU": 1})


def test_a_plain_table(tmp_path: Path) -> None:
    """Three columns of numbers are enough; a submission stays where it is."""
    jobs = read_workload(written(tmp_path, "submit,gpus,duration\n5,4,60.5\n2.5,1,10\n")).jobs

    assert [(job.submit_s, job.gpus, job.work_s) for job in jobs] == [(2.5, 1, 10.0), (5.0, 4, 60.5)]


def test_what_is_no_job_is_counted(tmp_path: Path) -> None:
    """Sound lines that describe no job are left out, and counted by reason."""
    idle = PHILLY + "2017-10-09 08:00:00,0,1,0,x\n2017-10-09 08:00:00,5,0,0,x\n2017-10-09 08:00:00,6,0,0,x\n"

    assert read_workload(written(tmp_path, idle)).skipped == {"asked for no GPU": 2, "ran for no time": 1}
    assert read_workload(written(tmp_path, OPENB)).skipped == {"was never scheduled": 1}


def test_openb(tmp_path: Path) -> None:
    """What ran lasts from its scheduling to its deletion."""
    first, second = read_workload(written(tmp_path, OPENB)).jobs

    assert (first.submit_s, first.work_s, first.requests) == (0.0, 12_480.0, Resources(12_000, 16_384, 1))
    assert first.details == {"gpu_milli": "460", "qos": "LS", "pod_phase": "Running"}
    assert (second.requests.gpus, second.work_s) == (0, 473.0)


def test_sacct(tmp_path: Path) -> None:
    """Jobs that have ended, with what they were allocated; where it divides by the nodes, each is a replica."""
    workload = read_workload(written(tmp_path, SACCT))
    bert, sweep = workload.jobs

    assert (bert.submit_s, bert.work_s, bert.replicas, bert.requests) == (0.0, 3600.0, 2, Resources(16_000, 131_072, 4))
    assert bert.details == {"JobName": 'bert "large"', "User": "ada", "State": "COMPLETED"}
    assert (sweep.submit_s, sweep.replicas, sweep.requests) == (30.0, 1, Resources(3_000, 1_536, 1))
    assert workload.skipped == {"had not ended": 2, "is a step of a job": 1}


def test_shockwave(tmp_path: Path) -> None:
    """A job runs for the seconds of its line, whatever the file of throughputs says."""
    first, second = read_workload(written(tmp_path, SHOCKWAVE)).jobs

    assert (first.work_s, first.replicas, first.iterations, first.model) == (1_418.0, 4, 1_000, "LM")
    assert (second.work_s, second.submit_s) == (7.5, 60.5)


def test_gavel(tmp_path: Path) -> None:
    """Steps over the measured throughput at the scale factor, which is the number of replicas."""
    first, second = read_workload(written(tmp_path, GAVEL)).jobs

    assert (first.work_s, first.replicas, first.gpus, first.iterations) == (20.0, 4, 4, 1000)
    assert (first.model, first.batch_size) == ("ResNet-18", 128)
    assert (second.submit_s, second.work_s, second.model, second.batch_size) == (60.5, 100.0, "A3C", None)
    assert second.details["slo"] == "3600"


def test_jsonl(tmp_path: Path) -> None:
    """An object a line, with the fields of a job; what is left out has its default."""
    first, second = read_workload(written(tmp_path, JSONL)).jobs

    assert first == SimJob(name="first", submit_s=0.0, requests=Resources(gpus=2), work_s=100.5)
    assert second == SimJob(
        name="second",
        submit_s=5.5,
        requests=Resources(cpu_m=100, memory_mib=256),
        replicas=3,
        work_s=60.0,
        iterations=50,
        model="bert",
        batch_size=32,
        family="algoperf/wmt",
        memory_mib=900,
        demand_cpu_m=6400,
        details={"team": "a"},
    )


def test_a_name_opens_a_file_or_arrivals(tmp_path: Path) -> None:
    """What follows ``thesis:`` names arrivals, anything else a file."""
    path = written(tmp_path, POLLUX)

    assert open_workload(str(path)).format == "pollux"
    assert open_workload("thesis:fixed-20").format == "arrivals"

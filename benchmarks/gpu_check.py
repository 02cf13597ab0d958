"""Shows on a machine with one NVIDIA GPU, in ten minutes, that jobs with GPUs work there.

* *driver*: NVML names the GPU, and says how busy it is.
* *device*: the log says which GPU a job has, and its process sees that one alone.
* *use*: while a job holds memory of the GPU, the node says so.
* *moves*: a long job gives way to a short one, both finish, no step is lost, and no invariant is broken.
* *ranks*: a gang of two shares the GPU by halves, each process knows its rank, and they sum over both (PyTorch DDP by gloo,
  because NCCL refuses two ranks on one GPU).
* *system*: where CRIU has NVIDIA's plug-in, a training that saves nothing itself is suspended and goes on from there.

It needs PyTorch with CUDA and ``pip install steepest[gpu]``; it says what is missing. A job that fails ends its part at
once, with what it printed last. ``--declared`` checks *device*, *moves* and *ranks* on a GPU that is declared but does not
exist, with trainings in NumPy.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.frame import gpu_training
from benchmarks.frame.bench import doing, figure, options, skip

from steepest.cluster.nvml import NvmlGpus
from steepest.errors import InputError
from steepest.keeper.processes import CUDA_PLUGIN

STEEPEST = [sys.executable, "-m", "steepest"]
NODE = "n1=1:gpus=1"
ALL_S = 540.0
"""All parts end in this time."""

PACE_S, MEASURED = 0.25, 400
"""Seconds of a declared step on any machine, since a job gives way only if enough of it is left; and the number of NumPy
steps by which the machine's speed is measured."""

NUMPY = ("-m", "steepest_lab.jobs.parallel", "--steps")
LONG, SHORT, GANG, SYSTEM = "long", "short", "ranks", "system"
HAS_CUDA = "import torch; assert torch.cuda.is_available(), 'PyTorch finds no GPU by CUDA'"


class Pool:
    """A system on a node with one GPU, in a folder."""

    def __init__(self, folder: Path, *, declared: bool, steps: int) -> None:
        self.folder, self.declared, self.steps = folder, declared, steps
        self.times = _steps_of_numpy() if declared else 1
        self.ends_s = time.monotonic() + ALL_S

    @contextlib.contextmanager
    def up(self) -> Iterator[None]:
        """The system runs."""
        words = ["up", "--state", str(self.folder), "--node", NODE, "--interval", "2s", "--heartbeat", "1s"]
        with self.folder.with_suffix(".log").open("w") as printed:
            up = subprocess.Popen([*STEEPEST, *words, "--min-run", "5s"], stdout=printed, stderr=printed)
        try:
            while not (self.folder / "steepest.json").exists():
                if up.poll() is not None:
                    raise RuntimeError(f"`steepest up` ended: {self.folder.with_suffix('.log').read_text()}")
                time.sleep(0.5)
            yield
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(60)

    def call(self, command: str, *words: str, check: bool = True) -> str:
        """The output of a command."""
        asked = [*STEEPEST, command, "--state", str(self.folder), *words]
        return subprocess.run(asked, capture_output=True, text=True, check=check).stdout

    def submit(self, name: str, steps: int, *words: str) -> None:
        """Submit a training."""
        steps *= self.times
        real = [gpu_training.__file__, "--steps", str(steps)]
        train = [*NUMPY, str(steps)] if self.declared else real
        request = ["--cpu", "0.3", "--model", "check", "--steps", str(steps), *(words or ("--gpus", "1"))]
        self.call("submit", "--name", name, *request, "--", sys.executable, *train)

    def job(self, name: str) -> dict[str, Any]:
        """A job's row."""
        return next((row for row in self.jobs() if row["job"] == name), {})

    def jobs(self) -> list[dict[str, Any]]:
        """All rows."""
        rows: list[dict[str, Any]] = json.loads(self.call("jobs", "--all", "--json"))
        return rows

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait for something.

        Raises:
            TimeoutError: It did not come.
            RuntimeError: A job has failed.
        """
        while not holds():
            if failed := [row["job"] for row in self.jobs() if row["outcome"] not in (None, "finished")]:
                printed = self.call("logs", failed[0], check=False).strip().splitlines()
                raise RuntimeError(f"{failed[0]} has failed: {' / '.join(printed[-3:]) or 'it printed nothing'}")
            if time.monotonic() > self.ends_s:
                raise TimeoutError(f"no {what} in the time of all parts ({ALL_S:g} s)")
            time.sleep(1.0)

    def node(self) -> dict[str, Any]:
        """The node's row."""
        rows: list[dict[str, Any]] = json.loads(self.call("nodes", "--json"))
        return rows[0] if rows else {}

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events of a type."""
        lines = map(json.loads, self.call("events", "--json").splitlines())
        return [line["event"] for line in lines if line["event"]["type"] == kind]


def _steps_of_numpy() -> int:
    """How many steps in NumPy stand for one."""
    begun_s = time.monotonic()
    subprocess.run([sys.executable, *NUMPY, str(MEASURED)], capture_output=True, check=True)
    return max(1, round(MEASURED * PACE_S / (time.monotonic() - begun_s)))


def device(pool: Pool) -> str:
    """Which GPU a job has: the log says it, and the process sees it."""
    pool.submit(LONG, 30 * pool.steps)
    pool.until(lambda: pool.job(LONG).get("gpus"), "GPU of the job on the log")
    has = pool.job(LONG)["gpus"]
    shows = "import os, sys; print('sees', os.environ['CUDA_VISIBLE_DEVICES'])"
    pool.call("submit", "--name", "sees", "--cpu", "0.1", "--", sys.executable, "-c", shows)
    pool.until(lambda: "sees" in pool.call("logs", "sees", check=False), "line of the job without GPUs")
    none = "sees \n" in pool.call("logs", "sees")
    if not pool.declared:
        pool.until(lambda: gpu_training.SEES in pool.call("logs", LONG, check=False), "line of the job about its GPUs")
    alone = pool.declared or f"{gpu_training.SEES} 1:" in pool.call("logs", LONG)
    is_right = has == {"n1": [0]} and none and alone
    return "" if is_right else f"the job has {has}, it sees that alone: {alone}; one without GPUs sees none: {none}"


def use(pool: Pool) -> str:
    """The node says how much memory of the GPU is in use."""
    pool.until(lambda: any(one.get("memory_mib") for one in pool.node()["gpus"]["use"]), "use of the GPU")
    figure("use", **pool.node()["gpus"]["use"][0])
    return ""


def moves(pool: Pool) -> str:
    """The long job gives way to a short one, and resumes from where it was."""
    pool.until(lambda: (pool.job(LONG).get("step") or 0) > pool.steps, "pace of the long job")
    pool.submit(SHORT, pool.steps)
    pool.until(lambda: all(pool.job(name).get("outcome") for name in (LONG, SHORT)), "ends of both jobs")
    ends = {name: pool.job(name)["outcome"] for name in (LONG, SHORT)}
    suspended = [event for event in pool.events("JobSuspended") if event["job"] == LONG]
    lost = sum(event.get("steps_lost", 0) for event in suspended)
    figure("moves", suspensions=len(suspended), steps_lost=lost)
    return "" if suspended and not lost and set(ends.values()) == {"finished"} else f"{len(suspended)} times, {ends}"


def ranks(pool: Pool) -> str:
    """Two processes share the GPU by halves, and train together."""
    pool.submit(GANG, pool.steps, "--replicas", "2", "--gpus", "0.5")
    pool.until(lambda: pool.job(GANG).get("outcome"), "end of the gang")
    started = [event for event in pool.events("ReplicaStarted") if event["job"] == GANG]
    found = sorted((event.get("replica", 0), tuple(event.get("gpus", ()))) for event in started)
    figure("ranks", outcome=pool.job(GANG)["outcome"], replicas=len(found))
    is_whole = found == [(0, (0,)), (1, (0,))] and pool.job(GANG)["outcome"] == "finished"
    said = pool.declared or all(gpu_training.SUMMED in pool.call("logs", GANG, "--replica", str(one)) for one in (0, 1))
    return "" if is_whole and said else f"replicas and GPUs: {found}, outcome {pool.job(GANG)['outcome']}, sums: {said}"


def system(pool: Pool) -> str:
    """By a keeper: the training is suspended with what it has on the GPU, and goes on from there."""
    if not CUDA_PLUGIN.exists():
        figure("system", skipped=f"CRIU has no {CUDA_PLUGIN}")
        return ""
    pool.submit(SYSTEM, 10 * pool.steps, "--gpus", "1", "--checkpoint", "system")
    pool.until(lambda: (pool.job(SYSTEM).get("step") or 0) > pool.steps, "pace of the job with a keeper")
    pool.call("suspend", SYSTEM)
    pool.until(lambda: [one for one in pool.events("JobSuspended") if one["job"] == SYSTEM], "suspension by a keeper")
    pool.call("resume", SYSTEM)
    pool.until(lambda: pool.job(SYSTEM).get("outcome"), "end of the job with a keeper")
    lost = pool.job(SYSTEM)["steps_lost"]
    figure("system", steps_lost=lost)
    return f"{lost} steps lost" if lost else ""


def invariants(pool: Pool) -> str:
    """What ``steepest check`` says of the log."""
    words = [*STEEPEST, "check", str(pool.folder), "--json"]
    found = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    verdicts = [one for each in json.loads(found)["pools"] for one in each["verdicts"]]
    broken = [one for one in verdicts if one["status"] != "holds"]
    return "; ".join(f"{one['checker']}: {one['message']}" for one in broken)


def checked(pool: Pool, parts: Sequence[Callable[[Pool], str]]) -> int:
    """Do the parts, and print how each came out; how many do not hold."""
    wrong = 0
    for part in parts:
        doing(part.__name__)
        try:
            why = part(pool)
        except (TimeoutError, RuntimeError) as error:
            why = str(error)
        except subprocess.CalledProcessError as error:
            why = f"{' '.join(error.cmd[2:4])}: {error.stderr.strip()}"
        figure(part.__name__, holds=not why, **({"why": why} if why else {}))
        wrong += bool(why)
    return wrong


def main() -> None:
    """Check, and end with status 1 where anything does not hold."""
    asked = options(__doc__, lambda parser: parser.add_argument("--declared", action="store_true"), steps=(20, 40, 100))
    parts = [device, use, moves, ranks, system, invariants]
    if asked.declared:
        parts = [device, moves, ranks, invariants]
    else:
        try:
            driver = NvmlGpus()
        except InputError as error:
            skip(f"there is no NVIDIA driver here ({error}); --declared checks what needs none")
        tried = subprocess.run([sys.executable, "-c", HAS_CUDA], capture_output=True, text=True, check=False)
        if tried.returncode:
            skip(f"PyTorch with CUDA is missing: {tried.stderr.strip().splitlines()[-1]}")
        driver.look()
        figure("driver", gpus=len(driver.use), memory_mib=driver.use[0].memory_mib, busy=driver.use[0].busy)
    with tempfile.TemporaryDirectory(prefix="steepest-gpu-") as out:
        pool = Pool(Path(out) / "state", declared=asked.declared, steps=asked.steps)
        with pool.up():
            wrong = checked(pool, parts)
    figure("all", parts=len(parts), wrong=wrong)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()

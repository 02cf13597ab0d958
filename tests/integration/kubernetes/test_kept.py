"""Unmodified programs are moved between two real kubelets by a keeper that is the first process of their pods."""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.harness.kept_job import ENV, JOB, PIPES, KeptJob, check_refused, running
from tests.harness.moved_trainings import TRAINING, each_training, moments, move_at, packages
from tests.harness.moved_trainings import unmoved as unmoved_here
from tests.integration.kept import cases
from tests.integration.kubernetes.moving_system import lab_system
from tests.integration.kubernetes.nodes_harness import KubernetesHarness

from steepest.cluster.container_paths import TEMPORARY
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.keepers import find_whole
from steepest.cluster.port import Cluster
from steepest.events import cluster as c
from steepest.events.common import CheckpointMode, Resources
from steepest.events.received import Received
from steepest_lab import jobs
from tools.kubernetes_lab.images import DEMO
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import CLAIM, NAMESPACE, NODES

NAMES = tuple(node.name for node in NODES)
NUMPY = Path(str(jobs.__file__)).with_name("unchanged.py").read_text()
CASES = ("python3", "-c", Path(str(cases.__file__)).read_text())
PROGRAMS = {"numpy": (NUMPY, "--steps=300", "--pause="), "pipes": (PIPES, "300", "")}
NEEDED = (
    *("torch", "torchgen", "functorch", "nvidia", "cuda", "triton", "numpy", "numpy.libs", "sympy", "mpmath"),
    *("networkx", "jinja2", "markupsafe", "filelock", "fsspec"),
)
"""Packages that PyTorch imports."""

SECURITY = "pod-security.kubernetes.io/enforce"
MOVES = 10
STEPS = 300
"""Of a training in PyTorch."""

Make = Callable[..., KeptJob]


@pytest.fixture
def make(harness: KubernetesHarness) -> Make:
    """Make a job in pods; skipped where there is nothing to keep it."""
    if isinstance(why := find_whole(), str):
        pytest.skip(why)

    def made(*command: str, allowed: bool = True, working_dir: str | None = None, **env: str) -> KeptJob:
        def cluster(_: Path) -> Cluster:
            return harness.cluster

        harness.cluster = harness.made(system_checkpoints=allowed)
        job = KeptJob(harness.state.path, command, CheckpointMode.SYSTEM, make=cluster, nodes=NAMES, env=env)
        job.spec = msgspec.structs.replace(job.spec, working_dir=working_dir)
        job.folder = harness.state.temporary(JOB.job)
        return job

    return made


@pytest.fixture
async def baseline(lab: KubernetesLab, harness: KubernetesHarness) -> AsyncIterator[None]:
    """The namespace enforces a level of Pod Security that admits no capabilities."""
    del harness
    lab.kubectl("label", "namespace", NAMESPACE, f"{SECURITY}=baseline", "--overwrite")
    yield
    lab.kubectl("label", "namespace", NAMESPACE, f"{SECURITY}-")


@pytest.fixture(scope="module")
def unmoved(lab: KubernetesLab) -> Iterator[Callable[[str], str]]:
    """What a program prints in a pod that nothing moves."""
    names: list[str] = []

    def printed(program: str) -> str:
        source, *words = PROGRAMS[program]
        command = ["python3", "-c", source, *words[:-1], f"{words[-1]}0"]
        names.append(name := f"unmoved-{secrets.token_hex(3)}")
        container = {
            "name": "job",
            "image": DEMO,
            "imagePullPolicy": "Never",
            "command": command,
            "env": [{"name": each, "value": value} for each, value in ENV.items()],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}}
        lab.kubectl("apply", "-f", "-", content={**pod, "spec": {"restartPolicy": "Never", "containers": [container]}})
        done = "--for=jsonpath={.status.phase}=Succeeded"
        lab.kubectl("-n", NAMESPACE, "wait", done, f"pod/{name}", "--timeout=90s")
        return lab.kubectl("-n", NAMESPACE, "logs", name)

    yield printed
    for name in names:
        lab.kubectl("-n", NAMESPACE, "delete", "pod", name, "--wait=false")


def command(program: str, pause_s: float) -> tuple[str, ...]:
    """Its words, for the image's Python."""
    source, *words, last = PROGRAMS[program]
    return ("python3", "-c", source, *words, f"{last}{pause_s}")


@pytest.mark.end_to_end
@pytest.mark.timeout(400)
@pytest.mark.parametrize("program", sorted(PROGRAMS))
async def test_a_program_that_is_moved_between_kubelets_prints_what_an_unmoved_one_does(
    make: Make, unmoved: Callable[[str], str], program: str
) -> None:
    """There and back again, into a new pod each time: no line differs, none is missing, and none is twice."""
    job = make(*command(program, 0.03))
    async with running(job):
        for lines in (50, 150):
            await job.printed(lines)
            await job.move()
        assert await job.end() == 0, job.output
        assert job.output == unmoved(program)


@pytest.mark.slow
@pytest.mark.timeout(500)
async def test_a_training_moved_at_random_moments_ends_with_the_same_weights(
    make: Make, unmoved: Callable[[str], str]
) -> None:
    """Ten moves of one training, none of which loses a step or changes a bit."""
    source, _, pause = PROGRAMS["numpy"]
    job = make("python3", "-c", source, "--steps=300", f"{pause}0.1")
    moments = sorted(random.Random(5).sample(range(5, 200), MOVES))
    async with running(job):
        for lines in moments:
            await job.printed(lines)
            await job.move()
        assert await job.end() == 0, job.output
        assert job.incarnation == MOVES + 1
        assert job.output == unmoved("numpy")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One training in PyTorch, or ``--trainings`` of them; only the whole form has it, as it takes another environment."""
    each_training(metafunc, usual=1, first=pytest.mark.slow)


@pytest.mark.timeout(0)  # each wait has a limit
async def test_pytorch_that_is_moved_between_kubelets_ends_with_the_same_weights(
    make: Make, harness: KubernetesHarness, style: str, seed: int
) -> None:
    """Each line is that of an unmoved training on this machine. PyTorch lies in the job's ``/tmp``, as no image has it."""
    found = packages()
    harness.nodes = {name: Resources(cpu_m=400, memory_mib=4096) for name in NAMES}
    train = (TRAINING.read_text(), f"--style={style}", f"--steps={STEPS}", "--pause=0.1")
    job = make("python3", "-c", *train, PYTHONPATH=f"{TEMPORARY}/packages")
    (job.folder / "packages").mkdir(parents=True)
    for name in NEEDED:  # hard links: it has more than a gigabyte
        shutil.copytree(found / name, job.folder / "packages" / name, copy_function=os.link)
    shutil.copy(found / "typing_extensions.py", job.folder / "packages")
    async with running(job):
        await move_at(job, moments(seed, latest=200))
        assert job.output == await asyncio.to_thread(unmoved_here, style, STEPS)


@pytest.mark.timeout(200)
@pytest.mark.parametrize("name", ["database", "pool", "shared_memory_block", "unlinked_file"])
async def test_what_a_process_holds_moves_into_another_pod(make: Make, name: str) -> None:
    """After the move, what it has set up before still works: also what it has in ``/tmp`` and ``/dev/shm``."""
    job = make(*CASES, name, working_dir=TEMPORARY)
    async with running(job):
        await job.printed(1)
        await job.move()
        (job.folder / "go").touch()
        assert await job.end() == 0, job.output
        assert job.output == "ready\nOK\n"


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("name", "code"),
    [pytest.param("ring", "io-uring", marks=pytest.mark.end_to_end), ("own_connection", "connections")],
)
async def test_a_job_that_cannot_be_saved_in_a_pod_runs_on(make: Make, name: str, code: str) -> None:
    """The save is refused with the reason, which is declared, and the job goes on to its own end."""
    job = make(*CASES, name, working_dir=TEMPORARY)
    async with running(job):
        await check_refused(job, code)


@pytest.mark.timeout(200)
async def test_without_the_operator_s_leave_a_job_has_no_keeper_and_says_so(make: Make) -> None:
    """It runs as any other, without capabilities, and its reason names the value."""
    job = make(*command("pipes", 0.01), allowed=False)
    async with running(job):
        report = await job.declared(CheckpointMode.NONE)
        assert report.mode_reason.startswith("no-keeper: ")
        assert "jobs.systemCheckpoints" in report.mode_reason
        assert await job.end() == 0


@pytest.mark.end_to_end
@pytest.mark.timeout(200)
async def test_where_pod_security_admits_no_keeper_a_job_runs_without(make: Make, baseline: None) -> None:
    """Its reason is what the API server says, and names the level."""
    del baseline
    job = make(*command("pipes", 0.01))
    async with running(job):
        report = await job.declared(CheckpointMode.NONE)
        assert report.mode_reason.startswith("no-keeper: ")
        assert 'violates PodSecurity "baseline:latest"' in report.mode_reason
        assert await job.end() == 0


RIGHTS = """
import json, os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
seen = {name: status[name].strip() for name in ("CapPrm", "CapBnd", "CapAmb", "NoNewPrivs", "Uid", "Groups")}
places = ("/steepest/control", "/steepest/checkpoints", "/steepest/order.json", "/steepest/criu", "/proc/1/mem")
env = {name: os.environ.get(name) for name in ("LD_PRELOAD", "HOME", "PYTHONUNBUFFERED", "STEEPEST_CONTROL")}
print(json.dumps({**seen, "open": [each for each in places if os.access(each, os.R_OK)], "env": env}), flush=True)
"""


@pytest.mark.end_to_end
@pytest.mark.timeout(200)
async def test_a_kept_job_has_no_rights_of_its_keeper(make: Make, harness: KubernetesHarness) -> None:
    """It has no capability and cannot get one, cannot enter what is restored, and its variables change no keeper."""
    job = make("python3", "-c", RIGHTS, LD_PRELOAD="/no/such.so")
    async with running(job):
        pod = json.loads(harness.kubectl("get", "pod", harness.pod(JOB).name, "-o", "json"))
        rights = pod["spec"]["containers"][0]["securityContext"]
        assert rights["allowPrivilegeEscalation"] is False
        assert rights["capabilities"]["drop"] == ["ALL"]
        assert not pod["spec"].get("shareProcessNamespace")
        assert await job.end() == 0
        seen = json.loads(job.output.splitlines()[-1])
    assert {seen[name] for name in ("CapPrm", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (seen["NoNewPrivs"], seen["Groups"], seen["Uid"].split()) == ("1", "", ["65534"] * 4)
    assert seen["open"] == []
    assert seen["env"] == {
        "LD_PRELOAD": "/no/such.so",
        "HOME": "/nonexistent",
        "PYTHONUNBUFFERED": "1",  # of the image
        "STEEPEST_CONTROL": None,
    }


READS = "--inh-caps=+dac_read_search --ambient-caps=+dac_read_search"
UNPRIVILEGED = f"setpriv --reuid=10001 --regid=10001 --clear-groups {READS}"
"""Runs a program as the user that a release's services have; it may read this checkout."""


@pytest.mark.end_to_end
@pytest.mark.timeout(400)
@pytest.mark.parametrize("user", ["", UNPRIVILEGED], ids=["root", "unprivileged"])
def test_doctor_says_between_which_nodes_jobs_can_be_moved(
    make: Make, lab: KubernetesLab, kubeconfig: Path, user: str
) -> None:
    """It moves a process on each node and from one to the next, and leaves nothing behind on the volume."""
    del make
    before = sorted(lab.folder.volume.iterdir())
    cluster = f"kubernetes={NAMESPACE}/{CLAIM}:{lab.folder.volume}"
    program = str(Path(sys.executable).with_name("steepest"))
    order = [*user.split(), program, "doctor", "--json", "--image", DEMO, "--cluster", cluster]
    env = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    done = subprocess.run(order, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(one["health"], one["found"]) for one in json.loads(done.stdout)] == [("ok", "")] * 3
    assert sorted(lab.folder.volume.iterdir()) == before


@pytest.mark.end_to_end
@pytest.mark.timeout(400)
def test_a_job_is_suspended_and_moved_under_a_whole_system(
    make: Make, lab: KubernetesLab, kubeconfig: Path, unmoved: Callable[[str], str]
) -> None:
    """No step is lost or done twice, and `explain` says why another one cannot be moved; the log's invariants hold."""
    del make
    nodes = ("node-a=0.9:512Mi", "node-b=0.5:256Mi")
    options = ("--checkpoint", "system", "--cpu", "0.2")
    state = lab.folder.volume / f"system-{secrets.token_hex(4)}"
    with lab_system(lab, kubeconfig, state, nodes, "--system-checkpoints") as system:
        system.submit("ring", *CASES, "ring", options=(*options, "--workdir", TEMPORARY))
        system.submit(JOB.job, *command("numpy", 0.05), options=(*options, *_env()))
        system.await_event(lambda event: _declared(event, JOB.job, CheckpointMode.SYSTEM))
        reason = system.await_event(lambda event: _declared(event, "ring", CheckpointMode.NONE))
        assert reason.startswith("io-uring: ")
        assert reason in system.call("explain", "ring").stdout
        system.call("suspend", JOB.job)
        suspended = system.await_event(lambda event: event.event if isinstance(event.event, c.JobSuspended) else None)
        assert suspended.steps_lost == 0
        system.call("release", JOB.job)
        folder = AdapterFolder(system.state / "cluster")
        (folder.temporary("ring") / "go").touch()
        assert system.await_end("ring").outcome is c.Outcome.FINISHED
        assert system.await_end(JOB.job).outcome is c.Outcome.FINISHED
        output = "".join(one.output.read_text() for one in folder.printed(JOB))
        assert output == unmoved("numpy")
        assert system.breaches() == []


def _env() -> list[str]:
    return [word for name, value in ENV.items() for word in ("--env", f"{name}={value}")]


def _declared(event: Received[c.ClusterEvent], job: str, mode: CheckpointMode) -> str | None:
    """Why, or a dash, where this event declares the mode of that job."""
    found = event.event
    if not isinstance(found, c.CheckpointModeDeclared) or (found.job, found.mode) != (job, mode):
        return None
    return found.reason or "-"

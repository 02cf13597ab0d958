"""``steepest submit -f``: what a file may say, how options count beside it, and how wrong fields are named."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.unit.cli.conftest import Holding
from tests.unit.cli.test_submit import call, spec_of

from steepest.app.state_folder import NodeSpec
from steepest.cli.jobs.job_file import OPTED_IN, job_of
from steepest.cluster.kubernetes.kinds.known import JOB, OTHERS
from steepest.errors import InputError
from steepest.events import cluster as c
from steepest.events.common import Resources
from steepest.events.parameters import PoolParameters, PriorityClass, QueueParameters
from steepest.events.registry import encode
from steepest.events.requests import Role

KINDS = (JOB, *OTHERS.values())
GANG = """
name = "resnet"
command = ["true", "--epochs", "20"]
queue = "vision"
priority = "high"
steps = 20000

[[roles]]
name = "chief"
requests = { cpu_m = 200, memory_mib = 64 }

[[roles]]
name = "worker"
replicas = 4
min = 2
max = 8
sizes = [2, 4, 8]
requests = { cpu_m = 100, extended = { "nvidia.com/mig-1g.5gb" = 1, "a.b/c" = 2 } }
"""


GANG_IN_YAML = """
# a comment, and long text in a block
name: resnet
command: ["true", --epochs, "20"]
queue: vision
priority: high
steps: 20000
roles:
  - name: chief
    requests: {cpu_m: 200, memory_mib: 64}
  - name: worker
    replicas: 4
    min: 2
    max: 8
    sizes: [2, 4, 8]
    requests:
      cpu_m: 100
      extended: {nvidia.com/mig-1g.5gb: 1, a.b/c: 2}
"""


def written(folder: Path, text: str, name: str = "job.toml") -> str:
    """A file with this text."""
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_file_describes_a_job(tmp_path: Path) -> None:
    """Its fields are those of ``JobSpec``; extended resources are a table."""
    job = job_of(GANG, "job.toml", tmp_path)
    extended = (("a.b/c", 2), ("nvidia.com/mig-1g.5gb", 1))

    assert job.name == "resnet"
    assert job.spec == c.JobSpec(
        command=("true", "--epochs", "20"),
        queue="vision",
        priority_class="high",
        steps=20000,
        roles=(
            Role(name="chief", requests=Resources(200, 64)),
            Role(
                name="worker",
                replicas=4,
                min=2,
                max=8,
                sizes=(2, 4, 8),
                requests=Resources(100, extended=extended),
            ),
        ),
    )
    assert job.spec.world == 5


def test_options_count_more_than_the_file(holding: Holding, tmp_path: Path) -> None:
    """Only those that are written; the others' defaults leave what the file says."""
    folder = holding()
    path = written(tmp_path, 'command = ["true"]\nqueue = "a"\nretries = 3\nmodel = "m"\nrequests = { cpu_m = 70 }\n')
    done = call(
        folder, "-f", path, "--name", "a", "--queue", "b", "--memory", "0", "--replicas", "2", "--env", "SEED=1"
    )
    spec = spec_of(folder, "a")

    assert done.exit_code == 0
    assert (spec.queue, spec.retries, spec.model, spec.requests, spec.replicas) == (
        "b",
        3,
        "m",
        Resources(70, replicas=1),
        2,
    )
    assert spec.env == {"SEED": "1"}
    assert spec.working_dir == str(Path().absolute())


def test_a_file_without_a_command_gets_one(holding: Holding, tmp_path: Path) -> None:
    """From behind the options; without any, that is the error."""
    folder = holding()
    path = written(tmp_path, 'steps = 7\nworking_dir = "."\n')

    assert "COMMAND" in call(folder, "-f", path).stderr
    assert call(folder, "-f", path, "--name", "a", "--", "true").exit_code == 0
    assert (spec_of(folder, "a").command, spec_of(folder, "a").steps) == (("true",), 7)
    assert spec_of(folder, "a").working_dir == str(tmp_path)


def test_replicas_are_those_of_a_role(holding: Holding, tmp_path: Path) -> None:
    """Where there are several, the option names one that there is."""
    folder = holding()
    text = GANG.replace(', extended = { "nvidia.com/mig-1g.5gb" = 1, "a.b/c" = 2 }', "").replace(
        ", memory_mib = 64", ""
    )
    path = written(tmp_path, text)

    assert call(folder, "-f", path, "--replicas", "worker=8").exit_code == 0
    assert spec_of(folder, "resnet").world == 9
    assert "say which role, like chief=8" in call(folder, "-f", path, "--replicas", "8").stderr
    assert "there is no role ps; the job has chief, worker" in call(folder, "-f", path, "--replicas", "ps=1").stderr
    assert "roles.worker.replicas: 9" in call(folder, "-f", path, "--replicas", "worker=9").stderr
    assert "write it like 4" in call(folder, "--replicas", "many", "--", "true").stderr


def test_a_class_is_resolved_when_a_job_is_submitted(holding: Holding) -> None:
    """By the pool's parameters; the number counts, and the name is kept for people."""
    classes = (PriorityClass("best", 5),)
    folder = holding(c.PoolConfigured(parameters=PoolParameters(queueing=QueueParameters(classes=classes))))
    call(folder, "--name", "a", "--priority", "best", "--", "true")
    call(folder, "--name", "b", "--priority", "-7", "--", "true")

    assert (spec_of(folder, "a").priority, spec_of(folder, "a").priority_class) == (5, "best")
    assert (spec_of(folder, "b").priority, spec_of(folder, "b").priority_class) == (-7, "")
    assert "no class high; write a number, or one of best" in call(folder, "--priority", "high", "--", "true").stderr
    assert "priority: Expected" in call(folder, "--priority", "1000001", "--", "true").stderr


def test_one_replica_is_as_short_on_the_log_as_ever(holding: Holding) -> None:
    """Announcing nothing adds no field but the count of replicas."""
    folder = holding()
    call(folder, "--name", "a", "--", "true")
    spec = spec_of(folder, "a")

    assert encode(spec) == b'{"command":["true"],"working_dir":"%s","requests":{"cpu_m":1000,"replicas":1}}' % bytes(
        Path().absolute()
    )


def test_a_job_asks_for_a_core_unless_it_says_otherwise(holding: Holding) -> None:
    """On nodes that have none, for the largest; replicas for what all of them can have; a file says it itself."""
    folder = holding()
    small = (NodeSpec("n1", Resources(600)), NodeSpec("n2", Resources(200)))
    call(folder, "--name", "one", "--", "true")
    folder.create(msgspec.structs.replace(folder.read(), nodes=small))
    call(folder, "--name", "small", "--", "true")
    call(folder, "--name", "gang", "--replicas", "4", "--", "true")
    call(folder, "--name", "own", "--cpu", "0.05", "--", "true")

    asked = [spec_of(folder, name).requests.cpu_m for name in ("one", "small", "gang", "own")]
    assert asked == [1_000, 600, 200, 50]


def test_yaml_says_the_same_as_toml(holding: Holding, tmp_path: Path) -> None:
    """The name's end decides; paths begin at the file's folder in both."""
    for suffix in ("yaml", "yml"):
        assert job_of(GANG_IN_YAML, f"job.{suffix}", tmp_path) == job_of(GANG, "job.toml", tmp_path)

    folder = holding()
    path = written(tmp_path, "command: ['true']\nsteps: 7\nworking_dir: .\nenv: {SEED: '1'}\n", "job.yaml")
    assert call(folder, "-f", path, "--name", "a", "--steps", "8").exit_code == 0
    spec = spec_of(folder, "a")
    assert (spec.command, spec.steps, spec.working_dir, spec.env) == (("true",), 8, str(tmp_path), {"SEED": "1"})


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("name: a\ncomand: []", "line 2: comand: there is no such field; did you mean command?"),
        ("requests:\n  cpu: 1", "line 2: requests.cpu: there is no such field; did you mean cpu_m?"),
        ("roles:\n- name: w\n  replica: 2", "line 3: roles[0].replica: there is no such field"),
        ("roles:\n- name: w\n  replicas: 0", "line 3: roles[0].replicas: Expected int >= 1"),
        ("roles:\n- name: w\n  requests: {gpu: 2}", "line 3: roles[0].requests.gpu: there is no such field"),
        ("env:\n  SEED: 7", "line 1: env[...]: Expected str, got int"),
        ("command: train.py", "line 1: command: Expected array, got str"),
        ("\npriority: 1\npriority_class: high", "line 3: priority_class: it excludes priority"),
        ("name: a\nname: b", "line 2: name is there twice"),
        ("name: a\nsteps: [1", "line 2: "),
        ("a: &a [1]\nb: *a", "line 2: an alias (*) is not allowed here"),
        (
            "name: !!python/object/apply:os.system [exit]",
            "line 1: a tag (tag:yaml.org,2002:python/object/apply:os.system)",
        ),
        ("yes: 1", "line 1: a field's name must be text"),
        ("<<: {name: a}", "line 1: a field's name must be text"),
        ("? [a]\n: 1", "line 1: a field's name must be text"),
        (r'name: "\ud800"', "line 1: half a character"),
        ("- name: a", "line 1: it holds no table of fields"),
        ("name: a\n---\nname: b", "line 2: but found another document"),
        ("a: " + "[" * 21 + "]" * 21, "line 1: it is nested more than 20 levels deep"),
        ("name: \x00", "unacceptable character"),
    ],
)
def test_a_wrong_line_of_yaml_is_named(text: str, wrong: str, tmp_path: Path) -> None:
    """With the file, the line and the field."""
    with pytest.raises(InputError) as caught:
        job_of(text, "job.yaml", tmp_path)

    message = f"{caught.value}; {caught.value.hint}"
    assert message.startswith("job.yaml: ")
    assert wrong in message


def test_a_gang_on_engines_needs_their_machines_network(holding: Holding) -> None:
    """It is refused with what allows it, until the installation does; one replica never is."""
    folder = holding()
    there = folder.read()
    folder.create(msgspec.structs.replace(there, nodes=(NodeSpec("n1", Resources(1_000), engine="unix:///nowhere"),)))

    assert "`steepest up --host-network`" in call(folder, "--replicas", "2", "--", "true").stderr
    assert call(folder, "--name", "one", "--", "true").exit_code == 0
    folder.create(msgspec.structs.replace(folder.read(), host_network=True))
    assert call(folder, "--name", "two", "--replicas", "2", "--", "true").exit_code == 0
    assert spec_of(folder, "two").world == 2


ROLE = 'command = ["true"]\n[[roles]]\nname = "w"\n'


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("comand = []", "comand: there is no such field; did you mean command?"),
        ("[requests]\ncpu = 1", "requests.cpu: there is no such field; did you mean cpu_m?"),
        (f"{ROLE}replica = 2", "roles[0].replica: there is no such field; did you mean replicas?"),
        (f"{ROLE}requests = {{ gpu = 2 }}", "roles[0].requests.gpu: there is no such field"),
        ('command = "train.py"', "command: Expected array, got str"),
        ('name = "A B"', "name: Expected str matching"),
        ("priority = 1000001", "priority: Expected int <= 1000000"),
        ('priority = 1\npriority_class = "high"', "priority_class: it excludes priority"),
        (f"{ROLE}replicas = 0", "roles[0].replicas: Expected int >= 1"),
        (f"{ROLE}replicas = 10001", "roles[0].replicas: Expected int <= 10000"),
        (f"{ROLE}may_leave = 3", "roles[0].may_leave: Expected bool"),
        ("steps = 0", "steps: Expected int >= 1"),
        ("env = { A = 1 }", "env[...]: Expected str, got int"),
        ("a = ", "Invalid value"),
        ("roles = 3", "roles: Expected array, got int"),
    ],
)
def test_a_wrong_field_is_named(text: str, wrong: str, tmp_path: Path) -> None:
    """With the file, and what it should have been."""
    with pytest.raises(InputError) as caught:
        job_of(text, "job.toml", tmp_path)

    message = f"{caught.value}; {caught.value.hint}"
    assert message.startswith("job.toml: ")
    assert wrong in message


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (f"{ROLE}replicas = 3\nmin = 4\nmax = 3", "roles.w.min: 4 is more than max, 3"),
        (f"{ROLE}replicas = 5\nmin = 1\nmax = 3", "roles.w.replicas: 5 is not from min, 1, to max, 3"),
        (f"{ROLE}replicas = 2\nmin = 1\nmax = 3\nsizes = [2, 4]", "roles.w.sizes: 4 is not from min, 1, to max, 3"),
        (f"{ROLE}replicas = 2\nmin = 1\nmax = 3\nsizes = [1, 3]", "roles.w.sizes: 2, its replicas, is not among them"),
        (f'{ROLE}[[roles]]\nname = "w"', "roles: two of them are named w"),
        (f"{ROLE}may_leave = true", "roles.w.may_leave: a replica that has left never finishes"),
        (f"replicas = 2\n{ROLE}", "replicas: the roles say how many there are"),
        ('command = ["true"]\nreplicas = 10001', "replicas: the job has up to 10001, and 10000 are allowed"),
        ('command = ["true"]\nreplicas = 0', "a job has at least one replica"),
        (f"{ROLE}requests = {{ gpus = 1, gpu_m = 500 }}", "roles.w.requests: gpus and gpu_m exclude each other"),
        (f"{ROLE}requests = {{ gpu_m = 1000 }}", "roles.w.requests.gpu_m: a share of a GPU is less than 1000"),
        (f"{ROLE}requests = {{ extended = {{ a = 0 }} }}", "roles.w.requests.extended: amounts are from 1"),
        ('command = ["true"]\nenv = { STEEPEST_JOB = "x" }', "env STEEPEST_JOB: names that begin with STEEPEST_"),
        (
            'command = ["true"]\nrequests = { cpu_m = 0 }',
            "requests.cpu_m: a replica asks for at least 1m CPU, a GPU or a",
        ),
        (f"{ROLE}requests = {{ memory_mib = 1 }}", "roles.w.requests.cpu_m: a replica asks for at least 1m CPU, a GPU"),
        (f"{ROLE}replicas = 10000\nrequests = {{ cpu_m = 1 }}", "it needs 10000 replicas of w, and "),
        (f"{ROLE}replicas = 21", "it needs 21 replicas of w, and 20 fit"),
        (f"{ROLE}requests = {{ cpu_m = 5000 }}", "each w of the job asks for 5000m CPU, more than any node has"),
    ],
)
def test_what_cannot_be_is_refused_before_it_is_asked(text: str, wrong: str, holding: Holding, tmp_path: Path) -> None:
    """The command exits with 2 and names the field; nothing is in the log."""
    folder = holding()
    done = call(folder, "-f", written(tmp_path, text))

    assert done.exit_code == 2
    assert wrong in done.stderr


@pytest.mark.parametrize("content", [b"\xff", b"name = '\x00'", b"#" * (256 * 1024 + 1)])
def test_a_file_that_is_none_is_refused(content: bytes, holding: Holding, tmp_path: Path) -> None:
    """One that is not there, bytes that are no text, or one that is too large."""
    path = tmp_path / "job.toml"
    path.write_bytes(content)

    for name in (path, tmp_path / "none.toml"):
        done = call(holding(), "-f", str(name))
        assert done.exit_code == 2
        assert str(name) in done.stderr


@pytest.mark.parametrize(
    ("kind", "api", "advice"),
    [
        *((kind.name, kind.api, "kubectl apply -f mine.yaml, with the label steepest.dev/schedule") for kind in KINDS),
        ("Job", "batch.volcano.sh/v1alpha1", "cannot schedule a Job of batch.volcano.sh/v1alpha1"),
        ("MPIJob", "kubeflow.org/v2beta1", "cannot schedule a MPIJob"),
        ("TFJob", "kubeflow.org/v1", "cannot schedule a TFJob"),
        ("RayJob", "ray.io/v1", "cannot schedule a RayJob"),
        ("Deployment", "apps/v1", "cannot schedule a Deployment"),
    ],
)
def test_an_object_of_kubernetes_is_for_kubectl(kind: str, api: str, advice: str) -> None:
    """It says so, and for each kind how it is opted in, or that it cannot be."""
    text = f"apiVersion: {api}\nkind: {kind}\nmetadata: {{name: mine}}\n"
    with pytest.raises(InputError, match="an object of Kubernetes") as refused:
        job_of(text, "mine.yaml", Path())

    assert advice in refused.value.hint


def test_the_kinds_that_are_advised_are_those_that_the_adapter_knows() -> None:
    """With their API groups."""
    assert {kind.name: kind.api.partition("/")[0] for kind in KINDS} == OPTED_IN

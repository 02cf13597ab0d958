"""Rules of the house that no linter knows: what each bans, where, and what to use instead. Each rule has a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "libs" / "steepest" / "src" / "steepest"
LAB = ROOT / "libs" / "steepest-lab" / "src" / "steepest_lab"
PURE = (
    "events",
    "view",
    "policies",
    "invariants",
    "describe",
    "runtime/engine.py",
    "runtime/decision_stream.py",
    "sagas/limit_machine.py",
    "sagas/migration_machine.py",
    "sagas/next_action.py",
    "sagas/placing_turns.py",
    "sagas/step_calls.py",
    "sagas/step_task.py",
)
LONGEST_FILE = 450

Finder = Callable[[ast.AST], Iterator[tuple[int, str]]]


def sources(*places: str) -> list[Path]:
    """The Python files below some places of the library; all of the project's own without any."""
    if places:
        found = [LIBRARY / place for place in places]
        assert all(place.exists() for place in found), "a rule names a place that is gone"
        return sorted(file for place in found for file in ([place] if place.is_file() else place.rglob("*.py")))
    return sorted(
        file for top in ("libs", "services", "tests", "benchmarks") for file in (ROOT / top).rglob("*.py")
        if ".venv" not in file.parts
    )  # fmt: skip


def unordered(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Loops, comprehensions and calls over a set: its order changes with the hash seed. Sort it, or use a dict.

    A set is known by how it is made (``{1}``, ``set(x)``, ``a.keys() - b``) and by the annotation of its name in the file.
    """
    named = {name for node in ast.walk(tree) for name in _annotated_sets(node)}
    for node in ast.walk(tree):
        for iterated in _iterated(node):
            if _is_set(iterated, named):
                yield getattr(iterated, "lineno", 0), "iterates over a set: sort it, or keep a dict"


def _iterated(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.For | ast.comprehension):
        yield node.iter
    elif isinstance(node, ast.Call) and _name(node.func) in {
        "list",
        "tuple",
        "enumerate",
        "iter",
        "dict",
        "deque",
        "join",
    }:
        yield from node.args[:1]
    elif isinstance(node, ast.Starred):
        yield node.value


def _is_set(node: ast.AST, named: set[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.Call(func=ast.Attribute(attr="union" | "difference" | "intersection" | "symmetric_difference")):
            return True
        case ast.BinOp(left=left, op=ast.Sub() | ast.BitAnd() | ast.BitOr() | ast.BitXor(), right=right):
            return any(_is_set(side, named) or _is_keys(side) for side in (left, right))
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in named
    return False


def _is_keys(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"keys", "items"}


def _annotated_sets(node: ast.AST) -> Iterator[str]:
    """Names of variables, fields and parameters that the file annotates as sets."""
    match node:
        case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name), annotation=annotation):
            pass
        case ast.arg(arg=name, annotation=ast.expr() as annotation):
            pass
        case _:
            return
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    if _name(outer) in {"set", "frozenset", "Set", "AbstractSet", "MutableSet"}:
        yield name


def hidden_inputs(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Calls whose answer differs from run to run. Time comes from the record, ids from their cause."""
    banned = {
        "hash": "changes with the hash seed: compare or sort the thing itself",
        "id": "is an address: give the thing a name",
        "uuid4": "is drawn by lot: make the id of its cause",
        "now": "reads a clock: take the record's time",
        "utcnow": "reads a clock: take the record's time",
        "getenv": "reads the environment: put it into PoolParameters",
        "pop_random": "is drawn by lot",
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _name(node.func)
            if name in banned:
                yield node.lineno, f"{name}() {banned[name]}"


def opens_itself(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Calls that open or list what a job may have put there. ``steepest.untrusted`` does that, and bounds it."""
    banned = {"open", "read_bytes", "read_text", "iterdir", "rglob", "glob", "listdir", "scandir"}
    awaited = {node.value for node in ast.walk(tree) if isinstance(node, ast.Await)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in banned and node not in awaited:
            yield node.lineno, f"{_name(node.func)}() opens it by itself: use steepest.untrusted"


def decodes_itself(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Calls that decode a text. ``steepest.untrusted.json`` does that, and has one error for all that is wrong with it."""
    banned = re.compile(r"(msgspec\.(json|msgpack)\.(decode|Decoder)|(json|pickle|marshal)\.loads?)")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and banned.fullmatch(ast.unparse(node.func)):
            yield node.lineno, f"{ast.unparse(node.func)}() decodes it by itself: use steepest.untrusted.json"


def _calls(node: ast.AST | None, names: set[str]) -> bool:
    return isinstance(node, ast.Call) and _name(node.func) in names


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@pytest.mark.parametrize("rule", [unordered, hidden_inputs])
def test_what_decides_is_a_function_of_the_log(rule: Finder) -> None:
    """Nothing in the pure packages depends on the hash seed, a clock, the environment or a lot."""
    found = [
        f"{file.relative_to(ROOT)}:{line}: {why}"
        for file in sources(*PURE)
        for line, why in rule(ast.parse(file.read_text()))
    ]

    assert found == []


def touches_environment(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Reads or writes of the process's environment: settings are read once, and passed on."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "environb", "getenv", "putenv", "unsetenv"}:
            if getattr(node.value, "id", "") == "os":
                yield node.lineno, f"os.{node.attr}: put it into app/settings/tree.py"
        elif isinstance(node, ast.ImportFrom) and node.module == "os" and any("env" in one.name for one in node.names):
            yield node.lineno, "imports the environment from os"


READ_ENVIRONMENT = {
    "libs/steepest-sdk/src/steepest_sdk/mqtt.py": "the SDK has its own settings, and no dependency",
    "libs/steepest-sdk/src/steepest_sdk/run.py": "likewise; a job's variables are its start",
    "libs/steepest/src/steepest/app/process_supervisor.py": "a process that it starts inherits PATH and the like",
    "libs/steepest/src/steepest/app/settings/reading.py": "reads the settings",
    "libs/steepest/src/steepest/cli/jobs/callers_environment.py": "it is what the user hands to a job",
    "libs/steepest/src/steepest/cluster/docker/addresses.py": "DOCKER_HOST and its like are those of Docker's own client",
    "libs/steepest/src/steepest/cluster/kubernetes/contexts.py": "KUBECONFIG is that of kubectl",
    "libs/steepest/src/steepest/cluster/keepers.py": "looks for CRIU on PATH",
    "libs/steepest/src/steepest/cluster/local/launch.py": "a job inherits PATH and the like",
    "libs/steepest/src/steepest/cluster/local/supervisor.py": "its environment is the job's, which it passes on",
    "libs/steepest/src/steepest/keeper/criu.py": "CRIU gets none of an image's configuration",
    "libs/steepest/src/steepest/keeper/job_start.py": "its environment is the job's, which it passes on",
    "libs/steepest-lab/src/steepest_lab/jobs/__init__.py": "a job, which sets the number of threads of its own libraries",
    "libs/steepest-lab/src/steepest_lab/jobs/faulty.py": "a job, which leaves a note with its checkpoints",
    "libs/steepest-lab/src/steepest_lab/jobs/streamed.py": "a job, whose variable names its storage",
    "libs/steepest-lab/src/steepest_lab/docker_engines/engine_daemon.py": "looks for a daemon on PATH",
    "libs/steepest-lab/src/steepest_lab/docker_engines/images.py": "a program for tests; looks for another one on PATH",
    "libs/steepest-lab/src/steepest_lab/storage/server.py": "looks for a server on PATH",
    "libs/steepest-lab/src/steepest_lab/reproduce/papers.py": "looks for a daemon on PATH",
}
"""Files that touch the environment, and why they may."""


def test_settings_are_read_in_one_place() -> None:
    """Nothing else reads the environment, and nothing writes to it, but for those that say why."""
    found = {
        str(file.relative_to(ROOT)): f"{line}: {why}"
        for top in ("libs", "services")
        for file in (ROOT / top).rglob("*.py")
        if "env" in (text := file.read_text())
        for line, why in touches_environment(ast.parse(text))
    }

    assert sorted(found) == sorted(READ_ENVIRONMENT), found


ONE_PLACE = {
    "fold_and_decide": "runtime/engine.py",
    "DecisionId": "runtime/decision_stream.py",
    "spell_id": "runtime/decision_stream.py",
    "PREVIOUS": "runtime/decision_stream.py",
    "next_action": "sagas/migration_machine.py",
    "StepBegun": "sagas/next_action.py",
    "MigrationFinished": "sagas/next_action.py",
    "MigrationFailed": "sagas/next_action.py",
    "CheckpointSaved": "sagas/step_task.py",
    "JobStopped": "sagas/step_task.py",
    "JobPlaced": "sagas/step_task.py",
    "JobResumed": "sagas/step_task.py",
    "StepFailed": "sagas/step_task.py",
    "LimitsApplied": "sagas/limit_machine.py",
    "LimitsRefused": "sagas/limit_machine.py",
}
"""Functions and events that live system, replay and simulation share, with the only module that calls or makes them. A
second one would be a second engine or a second saga."""

NAMED = re.compile("|".join(ONE_PLACE))
"""A file without these is not worth parsing."""

ELSEWHERE = ("events/received.py", "testing/contracts")
"""Ids are spelled for reading as well, and tests make logs and outcomes by hand."""


def made_by(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What a module calls or makes of ONE_PLACE; a header is made where it is set."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = _name(node.func)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            name = _name(node.slice)
        else:
            continue
        if name in ONE_PLACE:
            yield node.lineno, name


def test_there_is_one_engine_and_one_saga() -> None:
    """Decisions are folded, minted and carried out by the same code live, in replay, in simulation and in tests."""
    found = {
        (name, str(file.relative_to(LIBRARY)))
        for file in sources(".")
        if not str(file.relative_to(LIBRARY)).startswith(ELSEWHERE) and NAMED.search(text := file.read_text())
        for _, name in made_by(ast.parse(text))
    }

    assert sorted(found) == sorted(ONE_PLACE.items())


ENDS = {"JobEnded", "JobRejected"}
"""Both say that a job is over."""


def handles_one_end(tree: ast.AST, where: str = "") -> Iterator[tuple[int, str]]:
    """Where one of ENDS is asked for and the other is not: in a ``match``, a condition, or a table of events."""
    for node in ast.iter_child_nodes(tree):
        name = where
        match node:
            case ast.FunctionDef(name=inner) | ast.AsyncFunctionDef(name=inner) | ast.ClassDef(name=inner):
                name = f"{where}.{inner}"
            case ast.Assign(targets=[ast.Name(id=inner)]) | ast.AnnAssign(target=ast.Name(id=inner)):
                name = f"{where}.{inner}"
        named = {_name(one) for part in _asked(node) for one in ast.walk(part)}
        if len(ENDS & named) == 1:
            yield getattr(node, "lineno", 0), name.removeprefix(".")
        yield from handles_one_end(node, name)


def _asked(node: ast.AST) -> list[ast.AST]:
    """The parts of a construct that name the events it is about, if it is one."""
    match node:
        case ast.Match(cases=cases):
            return [case.pattern for case in cases]
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
            return [kinds]
        case ast.Compare() | ast.Set():
            return [node]
        case ast.Dict(keys=keys):
            return [key for key in keys if key is not None]
        case ast.Tuple() if all(isinstance(one, ast.Attribute) for one in node.elts):
            return [node]
    return []


ONE_END = {
    "cli/pool/follow.py": "a request that is refused is news, although it changes nothing",
    "cli/pool/user_requests.py": "asks for the answer to a request; of the end, the view",
    "cli/printing/event_printer.py": "a job that is rejected has not failed: what it printed does not explain it",
    "collector/job_notices.py:REASONS": "each has a word of its own, in one of two tables",
    "collector/job_notices.py:WARNINGS": "likewise",
    "collector/job_notices.py:notice_of": "an end is a warning only where the job failed",
    "events/registry.py:CLUSTER": "says who writes which",
    "gateway/pool/pool_feed.py": "asks for the answer to a request",
    "invariants": "only the view knows whether a rejection is of the job of that name; what is kept is that of one log",
    "policies/dragon/gang_scheduler.py:CHANGES": "a job that is rejected held nothing",
    "policies/dragon/gang_scheduler.py:GangScheduler.reconsider": "it decides no other end",
    "policies/pickyman/profiles.py": "a job that is rejected has finished nothing",
    "policies/placement/placer.py:MAKE_ROOM": "a job that is rejected held nothing",
    "policies/specon/rebalancer.py": "a job that is rejected counted on no node",
    "policies/steepest/devices/device_planner.py:DevicePlanner": "it decides no other end, and reads it back",
    "policies/steepest/planner_fold.py:CHANGES": "a job that is rejected held nothing",
    "pool_metrics/effector.py:PoolMetrics._ended": "forgets both, and counts how long jobs took that ended",
    "read_models": "tells what became of a request",
}
"""Places where one is handled without the other, and why."""


def test_who_handles_one_end_of_a_job_handles_the_other() -> None:
    """What is remembered of a job goes with it, also where it is rejected after it ran."""
    found = {
        f"{file.relative_to(LIBRARY)}:{where}": line
        for file in sources(".")
        if any(name in (text := file.read_text()) for name in ENDS)
        for line, where in handles_one_end(ast.parse(text))
    }
    why = {place: next((key for key in ONE_END if place.startswith(key)), None) for place in found}

    assert [place for place, key in why.items() if key is None] == []
    assert {*ONE_END} == {*why.values()}, "an exception that nothing needs"


OUTSIDE = ("cluster", "collector", "training_logs", "mqtt", "log/files")
"""Packages that read what comes from outside: what jobs write, what devices send, and recordings that others have made."""

OPEN_THEMSELVES = {
    "cluster/folders/folder_label.py": "keeps the folder's label itself, and asks of two folders whether they are empty",
    "cluster/folders/ended_jobs.py": "adds up sizes of finished files, follows no link, opens nothing",
    "cluster/folders/adapter_folder.py": "lists folders by their names alone, and keeps those that are numbers or names",
    "cluster/kubernetes/steps/kept.py": "reads the keeper's programs, which the operator has installed",
    "cluster/local/cluster.py": "opens control groups, and no file",
    "cluster/local/data_relay.py": "opens the file of its count before its job runs, by no link",
    "cluster/local/duty_cycles.py": "opens the supervisor's pipe for writing, without waiting, and looks at what it is",
    "cluster/local/groups.py": "reads the kernel's files",
    "cluster/local/launch.py": "opens the supervisor's log before a job runs",
    "cluster/local/machine.py": "reads the kernel's files",
    "cluster/nvml.py": "reads the kernel's file about the boot",
    "cluster/local/supervisor.py": "imports nothing outside the standard library; it opens its files before its job runs",
    "cluster/folders/incarnation_locks.py": "makes lock files, without waiting and by no link",
    "collector/losses.py": "lists the places that it keeps itself",
    "collector/source.py": "reads the place that it keeps itself",
    "cluster/output_copy.py": "opens an incarnation's folder, which no container sees",
    "mqtt/cursor.py": "reads the place that it keeps itself",
    "log/files/atomic_write.py": "writes new files, and syncs folders",
    "log/files/file_lock.py": "makes lock files, which it never reads",
    "log/files/partition_file.py": "opens its own file for appending; what is only read, `steepest.untrusted` opens",
}
"""Those of them that open files, and why they may."""

DECODE_THEMSELVES = {
    "cluster/kubernetes/api.py": "answers of the API server, which is trusted; it bounds and types them",
    "cluster/kubernetes/doctor.py": "likewise",
    "cluster/kubernetes/jobs.py": "likewise",
    "cluster/kubernetes/reflector.py": "likewise; objects have the server's schema, and annotations are decoded elsewhere",
    "cluster/local/launch.py": "an answer of the supervisor, which it has started",
    "cluster/local/supervisor.py": "imports nothing outside the standard library; its orders come from who started it",
    "collector/source.py": "reads the place that it keeps itself",
    "log/files/record_lines.py": "is called for every record; a line that is no record is marked as damaged",
    "mqtt/cursor.py": "reads the place that it keeps itself",
    "training_logs/reader.py": "copies what it holds itself",
    "training_logs/syntax/json_object.py": "reads NaN, which the other decoder refuses; what is nested too deep is none",
}
"""Those of them that decode something, and why they may."""


@pytest.mark.parametrize(("rule", "may"), [(opens_itself, OPEN_THEMSELVES), (decodes_itself, DECODE_THEMSELVES)])
def test_what_comes_from_outside_is_read_in_one_place(rule: Finder, may: dict[str, str]) -> None:
    """Code that reads it uses `steepest.untrusted`, or is listed here with a reason."""
    found = {
        str(file.relative_to(LIBRARY)): f"{line}: {why}"
        for file in sources(*OUTSIDE)
        for line, why in rule(ast.parse(file.read_text()))
    }

    assert sorted(found) == sorted(may), found


def ends_itself(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Ends that a module judges or records by itself: it would drop whose end it was, the job's or its place's."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        phases = [_name(given.value) for given in node.keywords if given.arg == "phase"]
        if _name(node.func) in {"ExitRecord", "GoneRecord"} or (
            _name(node.func) == "Observation" and {"EXITED", "GONE"} & set(phases)
        ):
            yield node.lineno, ast.unparse(node)


def test_what_an_end_is_worth_is_judged_in_one_place() -> None:
    """Every adapter says why an incarnation ended, and one function says whether its exit status speaks of its job."""
    found = {
        str(file.relative_to(LIBRARY)) for file in sources("cluster") if any(ends_itself(ast.parse(file.read_text())))
    }

    assert found == {"cluster/observation.py"}


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (ends_itself, "Observation(phase=ReplicaPhase.EXITED, exit_status=status)"),
        (ends_itself, "folder.write(folder.exit, ExitRecord(status=0))"),
        (opens_itself, "path.open()"),
        (opens_itself, "os.open(path, os.O_RDONLY)"),
        (opens_itself, "sorted(folder.rglob('*'))"),
        (decodes_itself, "msgspec.json.decode(payload, type=Envelope)"),
        (decodes_itself, "decode = msgspec.json.Decoder(Envelope).decode"),
        (decodes_itself, "json.loads(line)"),
        (touches_environment, "os.environ['X']"),
        (touches_environment, "os.environ.get('X')"),
        (touches_environment, "os.environ |= {}"),
        (touches_environment, "del os.environ['X']"),
        (touches_environment, "os.getenv('X')"),
        (touches_environment, "from os import environ"),
        (unordered, "for x in {1, 2}: pass"),
        (unordered, "[x for x in set(y)]"),
        (unordered, "def f(names: set[str]): return [name for name in names]"),
        (unordered, "class A:\n    held: frozenset[str]\n    def f(self): return tuple(self.held)"),
        (unordered, "for x in a.keys() - b: pass"),
        (unordered, "list(a | {1})"),
        (hidden_inputs, "datetime.now()"),
        (hidden_inputs, "hash(x)"),
        (hidden_inputs, "uuid.uuid4()"),
        (made_by, "fold_and_decide(view, deciders, received)"),
        (made_by, "c.StepBegun(plan='p')"),
        (made_by, "headers[PREVIOUS] = 'x'"),
        (handles_one_end, "match event:\n    case c.JobEnded(job=name): pass\n    case c.Tick(): pass"),
        (handles_one_end, "isinstance(event, c.JobEnded | c.Tick)"),
        (handles_one_end, "type(event) is c.JobRejected"),
        (handles_one_end, "HANDLERS = {c.JobEnded: f}"),
        (handles_one_end, "CHANGES = (c.JobEnded, c.Tick)"),
    ],
)
def test_the_rules_find_what_they_ban(rule: Finder, code: str) -> None:
    """A rule that finds nothing in its own example would enforce nothing."""
    assert list(rule(ast.parse(code)))


def test_no_file_has_outgrown_a_head() -> None:
    """A file of the library or a service that is longer than LONGEST_FILE lines has more than one reason to exist."""
    long = {
        str(file.relative_to(ROOT)): lines
        for file in sources()
        if "tests" not in file.parts and (lines := len(file.read_text().splitlines())) > LONGEST_FILE
    }

    assert long == {}


FLAT = (
    "cli/commands",
    "invariants/checkers",
    "training_logs/formats",
    LAB / "jobs",
    ROOT / "services/steepest_services",
)
"""Folders that hold many files of one kind, each found by its name."""


def test_no_folder_is_a_heap() -> None:
    """A package of the libraries has at most 15 modules, so that a reader can look over it."""
    packages = {file.parent for file in sources() if file.name == "__init__.py" and "tests" not in file.parts}
    full = {
        str(package.relative_to(ROOT)): modules
        for package in sorted(packages - {LIBRARY / flat for flat in FLAT})
        if (modules := len([file for file in package.glob("*.py") if file.name != "__init__.py"])) > 15
    }

    assert full == {}


MEANT_TWICE = ("SteepestCallback",)
"""Class names that several modules share: the SDK's callbacks, one per framework."""


def test_no_class_name_exists_twice() -> None:
    """A reader who searches for a class of the libraries or services finds one definition."""
    places: dict[str, list[str]] = {}
    for top in ("libs", "services"):
        for file in sorted((ROOT / top).rglob("*.py")):
            for name in re.findall(r"^ *class (\w+)[:(]", file.read_text(), re.MULTILINE):
                places.setdefault(name, []).append(str(file.relative_to(ROOT)))

    assert {name: at for name, at in places.items() if len(at) > 1 and name not in MEANT_TWICE} == {}
    assert all(len(places.get(name, [])) > 1 for name in MEANT_TWICE), "an exception that is not needed"


def test_every_file_says_what_it_owns() -> None:
    """The first line of every module is a sentence about it."""
    speaks = re.compile(r'(\s|#[^\n]*\n)*(r?"""\s*[^\s"]|\Z)')
    silent = [str(file.relative_to(ROOT)) for file in sources() if not speaks.match(file.read_text())]

    assert silent == []


def test_nothing_is_left_to_do_in_a_comment() -> None:
    """Open work is recorded where people look for it, and not in the source."""
    marks = re.compile(r"#.*\b(TODO|FIXME|XXX|HACK)\b")
    left = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in sources()
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if marks.search(line) and file != Path(__file__)
    ]

    assert left == []


def test_services_fit_on_a_page() -> None:
    """A service is a composition root of at most 70 lines; anything longer belongs to the library."""
    long = {
        str(file.relative_to(ROOT)): lines
        for file in (ROOT / "services").rglob("*.py")
        if (lines := len(file.read_text().splitlines())) > 70
    }

    assert long == {}

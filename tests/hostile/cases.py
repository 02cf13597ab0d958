"""What hostile jobs try: a table of small programs, each put into a job of its own beside an innocent one.

Each is plain Python, run with the environment that every job has. Harm to the hostile job itself is not checked.
"""

from __future__ import annotations

import textwrap
from typing import NamedTuple

PRELUDE = """
import json, os, shutil, signal, socket, sqlite3, struct, sys, time
C, K = os.environ["STEEPEST_CONTROL"], os.environ["STEEPEST_CHECKPOINTS"]
INNER = os.path.dirname(C)
until = time.monotonic() + SECONDS
def at(name): return os.path.join(C, name)
def put(name, content):
    with open(at(name), "wb") as file: file.write(content)
def checkpoint(step=1):
    made = os.path.join(K, "step-%08d-i0001" % step)
    os.makedirs(made, exist_ok=True)
    return made
def metrics(name):
    made = os.path.join(os.environ["STEEPEST_CHECKPOINTS"], "metrics")
    os.makedirs(made, exist_ok=True)
    return os.path.join(made, name)
"""
EPILOGUE = """
while time.monotonic() < until: time.sleep(0.05)
"""


class Try(NamedTuple):
    """One program.

    Attributes:
        program: What it does before it waits for its end.
        has_metrics: Whether its metric folder is read, which is ``metrics`` on its volume.
        needs_rights: Whether it needs the same rights as ``up``, which no container has.
    """

    program: str
    has_metrics: bool = False
    needs_rights: bool = False

    def command(self, seconds: float) -> tuple[str, ...]:
        """The command that runs it for that many seconds."""
        begin = PRELUDE.replace("SECONDS", str(seconds))
        return ("python3", "-I", "-S", "-c", begin + textwrap.dedent(self.program) + EPILOGUE)


INNOCENT = """
import json, os, time
with open(os.path.join(os.environ["STEEPEST_CONTROL"], "reports.jsonl"), "a", buffering=1) as reports:
    for step in range(1, STEPS + 1):
        time.sleep(PAUSE_S)
        reports.write(json.dumps({"step": step, "metrics": {"loss": 1.0 / step}}) + "\\n")
        print("step", step, flush=True)
"""


def innocent(steps: int, pause_s: float) -> tuple[str, ...]:
    """A job that reports that many losses and finishes."""
    program = INNOCENT.replace("STEPS", str(steps)).replace("PAUSE_S", str(pause_s))
    return ("python3", "-I", "-S", "-c", program)


GOOD_MANIFEST = """
import hashlib
made = checkpoint()
open(os.path.join(made, "model.bin"), "wb").close()
os.truncate(os.path.join(made, "model.bin"), 1 << 40)
sha = hashlib.sha256(b"").hexdigest()
digest = "sha256:" + hashlib.sha256(("model.bin\\t%d\\t%s\\n" % (1 << 40, sha)).encode()).hexdigest()
files = {"model.bin": {"bytes": 1 << 40, "sha256": sha}}
manifest = {"job": os.environ["STEEPEST_JOB"], "step": 1, "incarnation": 1, "digest": digest, "files": files}
open(os.path.join(made, "manifest.json"), "w").write(json.dumps(manifest))
"""
ENDLESS_VIEW = """
database = sqlite3.connect(metrics("mlflow.db"))
database.execute("CREATE VIEW metrics AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
    " SELECT x AS rowid, 'r' AS run_uuid, 'loss' AS key, 1.0 AS value, x AS step, 0 AS is_nan FROM n WHERE x < 0")
database.close()
"""
PIPE_JOURNAL = """
database = sqlite3.connect(metrics("mlflow.db"))
database.execute("CREATE TABLE metrics (run_uuid, key, value, step, is_nan)")
database.close()
os.mkfifo(metrics("mlflow.db-journal"))
"""

TRIES: dict[str, Try] = {
    # JSON
    "deep-hello": Try("put('hello.json', b'{\"a\":' * 10_000)"),
    "deep-ack": Try("put('checkpoint-ack.json', b'[' * 60_000)"),
    "deep-reports": Try("put('reports.jsonl', b'{\"step\":1,\"x\":' + b'[' * 30_000 + b'\\n')"),
    "deep-manifest": Try("open(os.path.join(checkpoint(), 'manifest.json'), 'wb').write(b'{\"a\":' * 100_000)"),
    "unknown-mode": Try('put(\'hello.json\', b\'{"checkpoint_mode": "whenever", "restored_step": -1}\')'),
    "ack-of-others": Try(
        'put(\'checkpoint-ack.json\', b\'{"request": "p1", "name": "../x", "step": 5, "digest": ""}\')'
    ),
    # no files
    "pipe-hello": Try("os.mkfifo(at('hello.json'))"),
    "pipe-ack": Try("os.mkfifo(at('checkpoint-ack.json'))"),
    "pipe-reports": Try("os.mkfifo(at('reports.jsonl'))"),
    "pipe-manifest": Try("os.mkfifo(os.path.join(checkpoint(), 'manifest.json'))"),
    "pipe-request": Try("os.mkfifo(at('checkpoint-request.json')); os.mkfifo(at('release.json'))"),
    "zero-hello": Try("os.symlink('/dev/zero', at('hello.json'))"),
    "zero-reports": Try("os.symlink('/dev/zero', at('reports.jsonl'))"),
    "zero-manifest": Try("os.symlink('/dev/zero', os.path.join(checkpoint(), 'manifest.json'))"),
    "shadow": Try("[os.symlink('/etc/shadow', at(name)) for name in ('hello.json', 'reports.jsonl')]"),
    "parents": Try("os.symlink('..', at('hello.json')); os.symlink(at('reports.jsonl'), at('reports.jsonl'))"),
    "folders": Try("[os.mkdir(at(name)) for name in ('hello.json', 'reports.jsonl', 'checkpoint-ack.json')]"),
    "sockets": Try(
        """
        os.chdir(C)
        kept = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for one, name in zip(kept, ("hello.json", "reports.jsonl")): one.bind(name)
        """
    ),
    "devices": Try(
        """
        for name, minor in (("hello.json", 5), ("reports.jsonl", 9)):
            try: os.mknod(at(name), 0o020666, os.makedev(1, minor))
            except PermissionError: pass
        """
    ),
    # sizes
    "sparse": Try("[(put(name, b''), os.truncate(at(name), 1 << 40)) for name in ('hello.json', 'reports.jsonl')]"),
    "sparse-checkpoint": Try(GOOD_MANIFEST),
    "truncating": Try(
        "while time.monotonic() < until: put('reports.jsonl', b'{\"step\": 1, \"metrics\": {}}\\n' * 2_000)"
    ),
    "rotating": Try(
        """
        for number in range(100):
            put("reports.jsonl", b'{"step": 1, "metrics": {"loss": 1.0}}\\n')
            os.rename(at("reports.jsonl"), at("reports.jsonl.%d" % number))
            time.sleep(0.01)
        """
    ),
    "long-lines": Try("[sys.stdout.write('x' * 1_000_000) for _ in range(40)]"),
    "long-names": Try(
        """
        with open(at("reports.jsonl"), "w") as file:
            for number in range(100):
                file.write(json.dumps({"step": 1, "metrics": {"%05d%s loss" % (number, "x" * 300_000): 1.0}}) + "\\n")
        """
    ),
    "flood": Try(
        """
        lines = b"".join(b"step %d loss %f\\n" % (step, 1 / (1 + step)) for step in range(5_000))
        for _ in range(200): os.write(1, lines)
        """
    ),
    "metric-files": Try(
        "for number in range(2_500): open(metrics('%05d' % number), 'w').write('1 1.0 1\\n')", has_metrics=True
    ),
    "metric-links": Try("os.symlink('/', metrics('root')); os.symlink('/dev/zero', metrics('zero'))", has_metrics=True),
    "endless-view": Try(ENDLESS_VIEW, has_metrics=True),
    "pipe-journal": Try(PIPE_JOURNAL, has_metrics=True),
    "pipe-database": Try("os.mkfifo(metrics('mlflow.db'))", has_metrics=True),
    # what is said
    "escapes": Try(
        """
        print("\\x1b]0;title\\x07\\x1b[31mstep 1 loss 0.5", flush=True)
        said = {"\\x1b[2Jloss": 1.0, "\\x00": 2.0, "\\u202e": 3.0}
        put("reports.jsonl", json.dumps({"step": 1, "metrics": said}).encode() + b"\\n")
        """
    ),
    "steps": Try(
        """
        steps = ("-5", "1e30", str(2 ** 70), '"x"', "null", "true", "[]", "9" * 6_000)
        put("reports.jsonl", b"".join(b'{"step": %s, "metrics": {"loss": 1.0}}\\n' % step.encode() for step in steps))
        """
    ),
    "numbers": Try(
        """
        values = ("NaN", "1e400", "-Infinity", "-1e400", '"nan"', "9" * 6_000)
        put("reports.jsonl", b"".join(b'{"step": 1, "metrics": {"loss": %s}}\\n' % value.encode() for value in values))
        """
    ),
    "surrogates": Try(
        """
        put("reports.jsonl", b'{"step": 1, "metrics": {"\\\\ud800loss": 1.0}}\\n\\xff\\xfe\\n')
        os.write(1, b"\\xff" * 999)
        """
    ),
    # processes and folders
    "children": Try(
        """
        for _ in range(5):
            if os.fork() == 0:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                os.setsid()
                time.sleep(600)
        """
    ),
    "no-output": Try("os.close(1); os.close(2)"),
    "removed-control": Try("shutil.rmtree(C, ignore_errors=True)"),
    "no-rights": Try(
        """
        put("hello.json", b"{}")
        for name in (at("hello.json"), C): os.chmod(name, 0)
        """
    ),
    "fixed-rights": Try("[os.chmod(name, 0o555) for name in (C, K)]"),
    "wrong-digest": Try(
        """
        manifest = {"job": os.environ["STEEPEST_JOB"], "step": 1, "incarnation": 1, "digest": "sha256:00", "files": {}}
        open(os.path.join(checkpoint(), "manifest.json"), "w").write(json.dumps(manifest))
        """
    ),
    "checkpoint-links": Try(
        "os.symlink('/', os.path.join(checkpoint(), 'root')); os.symlink('/', os.path.join(K, 'step-00000009-i0001'))"
    ),
    "many-checkpoints": Try("for step in range(2_000): checkpoint(step)"),
    "many-files": Try("for number in range(5_000): open(os.path.join(checkpoint(), str(number)), 'w').close()"),
    "deep-folders": Try(
        """
        for place in (C, checkpoint()):
            os.chdir(place)
            for _ in range(400):
                os.mkdir("d")
                os.chdir("d")
        """
    ),
    # with the rights of the user who runs Steepest
    "renamed-control": Try("os.rename(C, C + '.was')", needs_rights=True),
    "linked-control": Try("os.rename(C, C + '.was'); os.symlink('/', C)", needs_rights=True),
    "linked-volume": Try("os.rename(K, K + '.was'); os.symlink('/', K)", needs_rights=True),
    "pipe-lock": Try("os.unlink(INNER + '/lock'); os.mkfifo(INNER + '/lock')", needs_rights=True),
    "pipe-spec": Try("os.unlink(INNER + '/spec.json'); os.mkfifo(INNER + '/spec.json')", needs_rights=True),
    "no-orders": Try("os.unlink(INNER + '/orders')", needs_rights=True),
    "own-end": Try(
        "open(os.path.join(INNER, 'exit.json'), 'w').write(json.dumps({'status': 10 ** 30, 'reason': 'x' * 60_000}))",
        needs_rights=True,
    ),
    "own-group": Try(
        """
        os.mkdir(os.path.join(INNER, "group"))
        os.mkfifo(os.path.join(INNER, "group", "cgroup.procs"))
        start = {"pid": os.getpid(), "mark": None, "boot": "", "cgroup": os.path.join(INNER, "group")}
        open(os.path.join(INNER, "start.json"), "w").write(json.dumps(start))
        """,
        needs_rights=True,
    ),
    "odd-neighbours": Try(
        """
        jobs = os.path.dirname(os.path.dirname(os.path.dirname(INNER)))
        for odd in ("NO NAME", "\\x1b[31m", "zz/0/" + "9" * 40, "zz/" + "9" * 40 + "/1", "yy/0/1/control"):
            os.makedirs(os.path.join(jobs, odd), exist_ok=True)
        os.mkfifo(os.path.join(jobs, "yy", "0", "1", "spec.json"))
        os.symlink("/", os.path.join(jobs, "xx"))
        """,
        needs_rights=True,
    ),
}
"""By name, which is its job's name as well."""

"""Trainings with faults for the demo, and a webhook that takes the messages about them.

It owns which faults there are, and what each job asks for. It must never know how they are found.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec

from steepest.app.settings.tree import NotifySettings
from steepest.events.cluster import JobSpec
from steepest.events.growth import Reaction, Reactions
from steepest_lab.demo.workload import REQUEST, Arrival, DemoWorkload

REACTIONS = {
    "hang": Reactions(hung=Reaction.RESTART),
    "diverge": Reactions(diverged=Reaction.RESTART),
    "idle": Reactions(idle=Reaction.SUSPEND),
}
"""What the job with each fault asks for."""

STEPS = 400
STEP_CORE_MS = 9.0
_BYTES_MOST = 1 << 20


def with_faults(given: DemoWorkload, length: float) -> DemoWorkload:
    """The workload, after a job with each fault; ``length``: of these, relative to usual."""
    steps = max(100, round(STEPS * length))
    faulty = tuple(
        Arrival(
            at_s=0.0,
            job=f"faulty-{fault}",
            kind="faulty",
            spec=JobSpec(
                command=(sys.executable, "-m", "steepest_lab.jobs.faulty", "--fault", fault, "--steps", str(steps)),
                requests=REQUEST,
                model="linear regression, with a fault",
                reactions=reactions,
            ),
            core_s=steps * STEP_CORE_MS / 1_000,
        )
        for fault, reactions in REACTIONS.items()
    )
    return msgspec.structs.replace(given, arrivals=(*faulty, *given.arrivals))


@contextmanager
def webhook() -> Iterator[tuple[NotifySettings, list[str]]]:
    """A webhook on this machine, its settings, and what the messages say that it takes."""
    said: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), _BYTES_MOST))
            said.extend(json.loads(body)["message"].split("\n\n"))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            targets = Path(folder, "targets.toml")
            targets.touch(mode=0o600)
            url = f"json://127.0.0.1:{server.server_port}/"
            text = [f'[{fault}]\nurl = "{url}"\njobs = ["faulty-{fault}"]\n' for fault in REACTIONS]
            targets.write_text("".join(text), encoding="utf-8")
            yield NotifySettings(file=str(targets)), said
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

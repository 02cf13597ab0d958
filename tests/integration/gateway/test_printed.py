"""What a job printed, asked of a gateway: by both clients, by the command line, and as long as the job runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.integration.gateway.served import ServedFolder, running, submitted

from steepest.cli.main import main
from steepest.client import AsyncClient, Client, GatewayError
from steepest.cluster.folders.adapter_folder import AdapterFolder
from steepest.cluster.folders.printed import LINE_LETTERS
from steepest.cluster.port import ReplicaId
from steepest.events import cluster as c

HOSTILE = b"one\ntwo \x1b[31m\x07</script>\xff\rtwo\n" + b"x" * 100_000 + b"\n\nevent: end\ndata: {}\n"


def printing(served: ServedFolder, job: str, incarnation: int, printed: bytes) -> Path:
    """An incarnation of a job that has printed something."""
    folder = AdapterFolder(served.folder.cluster).incarnation(ReplicaId(job), incarnation)
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.output.write_bytes(printed)
    return folder.output


def test_both_clients_and_the_command_line_show_the_last_lines(served: ServedFolder) -> None:
    """Lines are as ``logs`` of the folder itself gives them; all that a job prints is text, and bounded."""
    served.append(*running("a", "n1"), *submitted("silent"))
    printing(served, "a", 1, HOSTILE)
    address = served.start()

    async def later() -> Any:
        async with AsyncClient(address, served.token) as client:
            return await client.log("a", lines=3)

    with Client(address, served.token) as client:
        whole, last = client.log("a"), client.log("a", lines=3)
        assert client.log("silent").incarnation is None
        refused = [
            _refusal(client, "a", incarnation=7),
            _refusal(client, "a", replica=1),
            _refusal(client, "none"),
            _refusal(client, "a", lines=100_000),
        ]
    assert whole.lines == ["one", "two", f"{'x' * LINE_LETTERS}…", "", "event: end", "data: {}"]
    assert (last.lines, last.earlier, last.incarnation) == (whole.lines[-3:], True, 1)
    assert asyncio.run(later()) == last
    assert refused == [400, 400, 404, 400]

    def said(*where: str) -> list[Any]:
        shown = CliRunner().invoke(main, ["logs", "a", "--json", *where], catch_exceptions=False).stdout
        return [json.loads(line) for line in shown.splitlines()]

    here = ("--state", str(served.folder.root))
    assert said(*here) == said(*here, "--server", address)


def test_what_is_printed_needs_a_token_and_is_followed_by_no_link(served: ServedFolder, tmp_path: Path) -> None:
    """It may hold secrets, so reading a pool is not enough; and what a job puts in its place is not opened."""
    served.append(*running("a", "n1"))
    output = printing(served, "a", 1, b"one\n")
    address = served.start()
    with Client(address) as stranger:
        assert _refusal(stranger, "a") == 401
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    output.unlink()
    output.symlink_to(secret)
    with Client(address, served.token) as client:
        assert _refusal(client, "a") == 400
        with pytest.raises(GatewayError):
            next(client.follow_log("a"))


def test_lines_are_followed_until_the_job_is_over(served: ServedFolder) -> None:
    """Those of its next incarnation too, to the line that has no end; nothing that a job prints ends the stream."""
    served.append(*running("a", "n1"))
    output = printing(served, "a", 1, b"0\nevent: end\n")
    address = served.start()
    with Client(address, served.token) as client:
        lines = client.follow_log("a", lines=2)
        seen = [next(lines) for _ in range(2)]
        with output.open("ab") as more:
            more.write(b"2\n")
        seen.append(next(lines))
        printing(served, "a", 2, b"3\nlast")
        seen.append(next(lines))
        served.append(
            c.ReplicaStopped(job="a", incarnation=1, node="n1", exit_status=0),
            c.JobEnded(job="a", outcome=c.Outcome.FINISHED, exit_status=0),
        )
        seen += lines

    assert [(row.incarnation, row.line) for row in seen] == [
        *((1, "0"), (1, "event: end"), (1, "2")),
        *((2, "3"), (2, "last")),
    ]


def _refusal(client: Client, job: str, **options: Any) -> int:
    with pytest.raises(GatewayError) as error:
        client.log(job, **options)
    return error.value.status

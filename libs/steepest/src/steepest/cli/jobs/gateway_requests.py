"""Jobs submitted to a gateway, and what happens to them until they are over."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from steepest.app.settings.tree import Settings
from steepest.cli.pool.remote import client_of, refuse_without_client
from steepest.cli.printing.output import tell
from steepest.client.calls import GatewayError
from steepest.describe import ROUTINE
from steepest.events.requests import JobSpec
from steepest.gateway.answers import Answer, EventRow

AGAIN_S = 1.0

QUIET = frozenset(kind.__name__ for kind in ROUTINE)
"""Events that come at a steady rate."""


def submit_to_gateway(
    settings: Settings, jobs: Sequence[tuple[str, JobSpec]], *, wait: bool, talk: bool
) -> list[dict[str, Any]]:
    """Submit jobs, and report of each in turn what became of it.

    Raises:
        InputError: The client's library is missing.
        GatewayError: The gateway refused, or was not reached.
    """
    refuse_without_client(settings)
    with client_of(settings) as gateway:
        answers = [gateway.submit(name, spec, pool=settings.pool) for name, spec in jobs]
    return [_report(settings, answer, wait=wait, talk=talk) for answer in answers]


def node_sizes(settings: Settings) -> list[int]:
    """The CPU of each node of a gateway's pool, in millicores.

    Raises:
        InputError: The client's library is missing.
        GatewayError: The gateway refused, or was not reached.
    """
    refuse_without_client(settings)
    with client_of(settings) as gateway:
        return [node.capacity.cpu_m for node in gateway.nodes(pool=settings.pool)]


def _report(settings: Settings, answer: Answer, *, wait: bool, talk: bool) -> dict[str, Any]:
    found = {
        "job": answer.job,
        "request": answer.request,
        "state": answer.state,
        "reason": answer.reason,
        "outcome": None,
        "exit_status": None,
    }
    if talk:
        tell(f"{answer.job} is {answer.state}{f': {answer.reason}' if answer.reason else ''}")
    if wait and answer.state != "rejected":
        found |= _end(settings, answer, talk=talk)
    return found


def _end(settings: Settings, answer: Answer, *, talk: bool) -> dict[str, Any]:
    for row in followed(settings, answer.offset):
        event = row.event
        if row.type == "JobRejected" and event.get("request") == answer.request:
            if talk:
                tell(row.sentence)
            return {"state": "rejected", "reason": event["reason"]}
        if event is None or event.get("job") != answer.job:
            continue
        if talk and row.type not in QUIET:
            tell(row.sentence)
        if row.type == "JobEnded":
            return {"state": "ended", "outcome": event["outcome"], "exit_status": event.get("exit_status")}
    raise AssertionError("a log is followed for ever")


def followed(settings: Settings, since: int | None) -> Iterator[EventRow]:
    """The pool's events from an offset on, without end: a gateway that goes away is asked again, from where it was.

    ``since``: None: from the first one that is kept.

    Raises:
        GatewayError: The gateway refuses.
    """
    is_away = False
    while True:
        try:
            with client_of(settings) as gateway:  # a gateway that was started again has another token of its own
                for row in gateway.follow(pool=settings.pool, since=since):
                    since, is_away = row.offset + 1, False
                    yield row
        except GatewayError as error:
            if error.status and not is_away:
                raise
            if not error.status and not is_away:
                tell(f"Warning: {error}; trying again", err=True)
            is_away = not error.status
        time.sleep(AGAIN_S)

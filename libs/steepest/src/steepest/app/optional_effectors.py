"""Effectors that an installation may ask for: traces, and messages about findings.

Without that, no library for them is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from steepest.app.extras import refuse_without
from steepest.app.settings.tree import NotifySettings
from steepest.clock import Clock
from steepest.notify.notifier import Notifier
from steepest.notify.targets import read_targets
from steepest.runtime.effector import Effector
from steepest.runtime.service import HeldPool
from steepest.tracing.effector import TraceExport


def trace_effectors(endpoint: str) -> Callable[[HeldPool], Sequence[Effector]]:
    """Makes what exports a pool's traces to this endpoint; nothing where it is empty.

    Raises:
        InputError: The libraries for it are missing.
    """
    if not endpoint:
        return lambda _: ()
    refuse_without(("opentelemetry",), "exporting traces needs", "install steepest[tracing]")
    from steepest.tracing.opentelemetry import SpanExport  # noqa: PLC0415 - an optional dependency

    export = SpanExport.to(endpoint)
    return lambda held: (TraceExport(export, held.pool),)


def notifiers(
    settings: NotifySettings, clock: Clock, count: Callable[[str, str, str, int], None]
) -> Callable[[HeldPool], Sequence[Effector]]:
    """Makes what notifies people of a pool's findings; nothing where no targets are named.

    Args:
        settings: Where the targets are.
        clock: For pauses.
        count: Called with a pool, a target, ``sent`` or ``failed``, and how many more.

    Raises:
        InputError: The libraries for it are missing, or the file of targets is wrong.
    """
    if not settings.file:
        return lambda _: ()
    refuse_without(("apprise",), "messages about findings need", "install steepest[notify]")
    from steepest.notify.apprise_channel import channel_to  # noqa: PLC0415 - an optional dependency

    targets = read_targets(Path(settings.file))
    channels = {name: channel_to(name, target.url) for name, target in targets.items()}

    return lambda held: (
        Notifier(targets, channels, pool=held.pool, clock=clock, page=settings.page, count=partial(count, held.pool)),
    )

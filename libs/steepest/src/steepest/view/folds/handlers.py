"""The type of a table of handlers: what each event changes in a view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steepest.events.received import Received
from steepest.view.projection import Projection

Handlers = dict[type, Callable[[Projection, Any, Received[Any]], bool | None]]
"""Event type to handler(view, event, received); False means that the event does not count at its position."""

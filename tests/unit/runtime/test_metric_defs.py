"""Every metric says what it means and what to do about it."""

from __future__ import annotations

import inspect
from pathlib import Path

from prometheus_client import CollectorRegistry

from steepest.runtime import metric_defs
from steepest.runtime.metric_defs import Metrics


def comments() -> dict[str, str]:
    """The comment above each metric in the source, by the attribute that holds the metric."""
    found: dict[str, str] = {}
    above = ""
    for line in map(str.strip, inspect.getsource(metric_defs).splitlines()):
        if line.startswith("self.") and " = " in line and "registry = " not in line:
            found[line.removeprefix("self.").partition(" = ")[0]] = above
        above = f"{above} {line}" if line.startswith("#") and above.startswith("#") else line
    return found


def test_every_metric_is_explained() -> None:
    """Above each metric stands a comment of a sentence with its meaning and one with what to do."""
    metrics = vars(Metrics(CollectorRegistry())).keys() - {"registry"}
    explained = {name for name, text in comments().items() if text.startswith("#") and text.count(". ") >= 1}

    assert metrics
    assert metrics - explained == set()


def test_every_metric_is_counted_in() -> None:
    """No metric stands still for ever: each one is used somewhere in the runtime."""
    used = "".join(file.read_text() for file in Path(metric_defs.__file__).parent.glob("*.py"))

    assert [name for name in comments() if f"metrics.{name}.labels" not in used] == []

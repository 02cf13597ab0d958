"""The settings as text: help of a service, tables of the documentation, an example file, what is in force.

It owns how rows are shown. It must never read a source.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from steepest.app.settings.rows import Setting, rows, sections, text, type_in_words

EXAMPLE_HEAD = """\
# Every setting, with its default or an example: `steepest up --config FILE`.
# A variable of the environment overrides this file, and a flag overrides both; `steepest config show` prints the result.
"""


def help_table(shown: Sequence[Setting]) -> str:
    """A line a setting: variable, meaning, default."""
    width = max(len(row.variable) for row in shown)
    return "\n".join(f"  {row.variable:{width}}  {row.meaning}{_default_note(row)}" for row in shown)


def _default_note(row: Setting) -> str:
    return f" ({text(row.default)})" if row.default not in {None, "", (), False} else ""


def markdown_table(shown: Iterable[Setting]) -> str:
    """A table of Markdown: name, variable, type, default, meaning."""
    lines = ["| setting | variable | type | default | what it means |", "|---|---|---|---|---|"]
    for row in shown:
        default = f"`{text(row.default)}`" if row.default not in {None, "", ()} else ""
        kind = type_in_words(row.type).replace("|", "\\|")
        lines.append(f"| `{row.path}` | `{row.variable}` | {kind} | {default} | {row.meaning} |")
    return "\n".join(lines)


def example() -> str:
    """A TOML file of every setting, all of them commented out, so that the defaults are in force."""
    lines = [EXAMPLE_HEAD]
    section = ""
    for row in rows():
        if row.section != section:
            section = row.section
            lines.append(f"\n# {sections()[section]}\n[{section}]")
        lines += [f"# {row.meaning} ({type_in_words(row.type)})", f"#{row.path.rpartition('.')[2]} = {_toml(row)}"]
    return "\n".join(lines) + "\n"


def _toml(row: Setting) -> str:
    """A value as TOML: the default, or an example where there is none."""
    value: Any = row.default
    if value in {None, "", ()} and row.examples:
        value = [row.examples[0]] if row.is_list else row.examples[0]
    if value is None:
        value = EXAMPLES[row.path]
    return json.dumps(value, ensure_ascii=False)


EXAMPLES: dict[str, object] = {
    "pool": "default",
    "metrics.port": 9400,
    "gateway.port": 8080,
    "mqtt.device": "edge-1",
    "cluster.heartbeat_ms": 500,
    "cluster.host_network": False,
    "cluster.system_checkpoints": False,
    "cluster.link_mbit": 100,
    "parameters.alpha": 0.01,
    "parameters.interval_ms": 30_000,
    "parameters.normalisation": "settled",
    "parameters.policy": "steepest",
    "parameters.placement": "spread",
    "parameters.queueing": "fifo",
    "parameters.blocking": False,
    "parameters.preempt": False,
    "parameters.min_run_ms": 60_000,
    "parameters.half_life_ms": 86_400_000,
    "parameters.max_suspensions": 5,
    "parameters.on_hung": "notify",
    "parameters.on_diverged": "notify",
    "parameters.on_idle": "notify",
    "parameters.drain_slow": False,
}
"""The default of settings without a value."""

"""The page of the chart's values: what each means is in its schema, and its default in ``values.yaml``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from tools.docs.markdown import ROOT

CHART = ROOT / "charts" / "steepest"
HEAD = """# Values of the Helm chart

This page is generated from the chart's schema and its `values.yaml` (`make docs-generate`).
[On Kubernetes](kubernetes.md) says how the chart is installed.

| value | type | default | what it means |
|---|---|---|---|
"""

Schema = Mapping[str, Any]


def values_page() -> str:
    """Each value with its type, default and meaning."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    return HEAD + "".join(_rows(schema, schema, values, ""))


def _rows(whole: Schema, schema: Schema, value: object, path: str) -> Iterator[str]:
    for name, own in schema["properties"].items():
        at, default = f"{path}{name}", value.get(name) if isinstance(value, dict) else None
        if at == "global":
            continue
        described = {**whole["$defs"][own["$ref"].rpartition("/")[2]], **own} if "$ref" in own else own
        if at == "services":
            yield _row("services.NAME", described, "")
        elif "properties" in described:
            yield _row(at, described, "")
            yield from _rows(whole, described, default, f"{at}.")
        else:
            shown = "" if default in (None, "", [], {}) or at == "pools" else f"`{json.dumps(default)}`"
            yield _row(at, described, shown)
            if at == "pools":
                yield from _rows(whole, described["items"], default[0] if isinstance(default, list) else {}, "pools[].")


def _row(at: str, described: Schema, default: str) -> str:
    kind = described.get("type", "object")
    words = ", ".join(described["enum"]) if "enum" in described else kind
    return f"| `{at}` | {words} | {default} | {described['description']} |\n"

"""The dashboards as Grafana's JSON: ``python -m tools.monitoring.dashboards`` writes ``deploy/monitoring/dashboards``.

They are of the first version of the format, which Grafana 12 provisions; the SDK's newer builders make the second.
It owns how a panel looks. What it asks is in :mod:`tools.monitoring.panels`.
"""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import DataSourceRef, LegendPlacement
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, VariableRefresh

from tools.docs.markdown import ROOT
from tools.monitoring.boards.jobs import JOBS
from tools.monitoring.boards.nodes import NODES
from tools.monitoring.boards.overview import OVERVIEW
from tools.monitoring.boards.pipeline import PIPELINE
from tools.monitoring.boards.policies import POLICIES
from tools.monitoring.panels import DashboardDefinition, Panel, Variable

DASHBOARDS = (OVERVIEW, NODES, JOBS, POLICIES, PIPELINE)
FOLDER = ROOT / "deploy" / "monitoring" / "dashboards"
SOURCE = DataSourceRef(type_val="prometheus", uid="prometheus")
HEIGHT = 7
STAT_HEIGHT = 4


def generated() -> dict[Path, str]:
    """The file of each dashboard, and its text."""
    return {FOLDER / f"{definition.uid}.json": as_json(definition) for definition in DASHBOARDS}


def as_json(definition: DashboardDefinition) -> str:
    """A dashboard as Grafana reads it; the same text for the same dashboard."""
    made = (
        dashboard.Dashboard(definition.title)
        .uid(definition.uid)
        .description(definition.about)
        .tags(["steepest"])
        .readonly()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .time("now-30m", "now")
        .refresh("10s")
        .timezone("browser")
    )
    for variable in definition.variables:
        made.with_variable(_variable(variable))
    ids = count(1)
    for title, panels in definition.rows:
        made.with_row(dashboard.Row(title).id(next(ids)))
        for panel in panels:
            made.with_panel(_panel(panel).id(next(ids)))
    plain = json.loads(JSONEncoder().encode(made.build()))
    for one in plain.get("templating", {}).get("list", ()):
        for key in [key for key in one if key.startswith("auto")]:  # of variables for intervals; no other may have them
            del one[key]
    return json.dumps(plain, sort_keys=True, indent=1) + "\n"


def _variable(variable: Variable) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(variable.name)
        .label(variable.label)
        .datasource(SOURCE)
        .query(f"label_values({variable.metric}, {variable.of})")
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(multi=True)
        .include_all(include_all=True)
        .all_value(".+")
    )


def _panel(panel: Panel) -> stat.Panel | timeseries.Panel:
    made: stat.Panel | timeseries.Panel
    if panel.is_stat:
        made = stat.Panel()
    else:
        legend_below = common.VizLegendOptions().show_legend(show_legend=True).placement(LegendPlacement.BOTTOM)
        made = timeseries.Panel().fill_opacity(8).legend(legend_below)
    made.title(panel.title).description(panel.about).datasource(SOURCE).unit(panel.unit)
    made.span(panel.width).height(STAT_HEIGHT if panel.is_stat else HEIGHT)
    if panel.most is not None:
        made.min(0).max(panel.most)
    for number, (expression, legend) in enumerate(panel.queries):
        made.with_target(
            prometheus.Dataquery().expr(expression).legend_format(legend).ref_id(chr(ord("A") + number)).range()
        )
    return made


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text)

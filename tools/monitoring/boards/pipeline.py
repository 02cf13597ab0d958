"""The processes and their loops over the log."""

from __future__ import annotations

from tools.monitoring.panels import DashboardDefinition, Panel

PIPELINE = DashboardDefinition(
    uid="steepest-pipeline",
    title="Steepest: pipeline",
    about="The processes and their loops over the log: do they keep up, and is the log sound?",
    rows=(
        (
            "Loops",
            (
                Panel(
                    title="Lag",
                    about="Records between a loop and the end of its partition.",
                    queries=(("max by (instance, loop) (steepest_lag_records)", "{{loop}} {{instance}}"),),
                ),
                Panel(
                    title="Records",
                    about="Records a second that are folded.",
                    queries=(("sum by (loop) (rate(steepest_records_total[$__rate_interval]))", "{{loop}}"),),
                    unit="ops",
                ),
                Panel(
                    title="Decision latency",
                    about="Time from a record to the decisions because of it, 95th percentile.",
                    queries=(
                        (
                            (
                                "histogram_quantile(0.95, sum by (le, loop)"
                                " (increase(steepest_decision_latency_seconds_bucket[$__range])))"
                            ),
                            "{{loop}}",
                        ),
                    ),
                    unit="s",
                ),
                Panel(
                    title="Decisions",
                    about="Events a second that are decided, by type.",
                    queries=(("sum by (event) (rate(steepest_decisions_total[$__rate_interval]))", "{{event}}"),),
                    unit="ops",
                ),
                Panel(
                    title="Silence",
                    about="Of loops and of effectors that must do something again and again. Near 60 s a process ends.",
                    queries=(("max by (instance, part) (steepest_silence_seconds)", "{{part}} {{instance}}"),),
                    unit="s",
                ),
                Panel(
                    title="Batches",
                    about="Mean seconds of a batch, with the append of its outputs.",
                    queries=(
                        (
                            (
                                "sum by (loop) (increase(steepest_batch_seconds_sum[$__range]))"
                                " / sum by (loop) (increase(steepest_batch_seconds_count[$__range]))"
                            ),
                            "{{loop}}",
                        ),
                    ),
                    unit="s",
                ),
            ),
        ),
        (
            "The log",
            (
                Panel(
                    title="Dead letters",
                    about="Records that could not be read. Not zero: see the runbook of SteepestDeadLetters.",
                    queries=(("sum by (topic) (steepest_dead_letters_total)", "{{topic}}"),),
                ),
                Panel(
                    title="Restarts of loops",
                    about="After failures of the log.",
                    queries=(("sum by (instance, loop) (steepest_loop_restarts_total)", "{{loop}} {{instance}}"),),
                ),
                Panel(
                    title="Gaps",
                    about="Decisions whose predecessor is missing. Not zero: see the runbook of SteepestRecordsLost.",
                    queries=(("max by (loop) (steepest_decision_gaps)", "{{loop}}"),),
                ),
            ),
        ),
        (
            "Processes",
            (
                Panel(
                    title="Up and ready",
                    about="Processes that answer, and those that have caught up.",
                    queries=(('sum(up{job=~"steepest.*"})', "up"), ("sum(steepest_ready)", "ready")),
                ),
                Panel(
                    title="Releases",
                    about="Processes by release: more than one during an upgrade alone.",
                    queries=(("count by (version, reads) (steepest_build_info)", "{{version}} reads {{reads}}"),),
                ),
                Panel(
                    title="The pools' clocks",
                    about="Counted seconds a second; less than 1: the worker-monitor is away for times.",
                    queries=(("rate(steepest_pool_counted_seconds[$__rate_interval])", "{{pool}}"),),
                ),
            ),
        ),
    ),
)

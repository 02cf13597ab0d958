"""A pool at a glance."""

from __future__ import annotations

from tools.monitoring.panels import IN_POOL, POOL, DashboardDefinition, Panel, mean, quantiles

OVERVIEW = DashboardDefinition(
    uid="steepest-overview",
    title="Steepest: overview",
    about="A pool at a glance: what waits, what runs, what was decided, and what became of it.",
    variables=(POOL,),
    rows=(
        (
            "Now",
            (
                Panel(
                    title="Jobs that run",
                    about="Running jobs.",
                    queries=((f'sum(steepest_jobs{{{IN_POOL}, phase="running"}})', "running"),),
                    width=4,
                    is_stat=True,
                ),
                Panel(
                    title="Jobs that wait",
                    about="Jobs that wait for a place, to start or to resume.",
                    queries=((f"sum(steepest_queue_jobs{{{IN_POOL}}})", "waiting"),),
                    width=4,
                    is_stat=True,
                ),
                Panel(
                    title="CPU in use",
                    about="Measured use of the CPU of all nodes. Low beside a long queue: requests are too large.",
                    queries=(
                        (
                            (
                                f"sum(steepest_node_cpu_used_cores{{{IN_POOL}}})"
                                f" / sum(steepest_node_cpu_capacity_cores{{{IN_POOL}}})"
                            ),
                            "used",
                        ),
                    ),
                    unit="percentunit",
                    width=4,
                    is_stat=True,
                ),
                Panel(
                    title="Nodes that are silent",
                    about="Not zero: see the runbook of SteepestNodeSilent.",
                    queries=((f'sum(steepest_nodes{{{IN_POOL}, state="lost"}})', "silent"),),
                    width=4,
                    is_stat=True,
                ),
                Panel(
                    title="Moves in flight",
                    about="Plans that stop a job and start it again.",
                    queries=((f'sum(steepest_plans_in_flight{{{IN_POOL}, kind=~"migrate|move|scale"}})', "moves"),),
                    width=4,
                    is_stat=True,
                ),
                Panel(
                    title="Processes that are ready",
                    about="Fewer than there are: see the pipeline's dashboard.",
                    queries=(("sum(steepest_ready)", "ready"),),
                    width=4,
                    is_stat=True,
                ),
            ),
        ),
        (
            "Jobs",
            (
                Panel(
                    title="Jobs by phase",
                    about="Jobs that have not ended.",
                    queries=((f"sum by (phase) (steepest_jobs{{{IN_POOL}}})", "{{phase}}"),),
                ),
                Panel(
                    title="Running jobs by category",
                    about="PC learns fast, WC is watched, CC has converged.",
                    queries=((f"sum by (category) (steepest_jobs_by_category{{{IN_POOL}}})", "{{category}}"),),
                ),
                Panel(
                    title="Queue",
                    about="Waiting jobs by queue, and for how long the first one has waited.",
                    queries=((f"sum by (queue) (steepest_queue_jobs{{{IN_POOL}}})", "{{queue}}"),),
                ),
                Panel(
                    title="Longest wait by queue",
                    about="Counted time since the submission of the job that has waited longest.",
                    queries=((f"max by (queue) (steepest_queue_oldest_seconds{{{IN_POOL}}})", "{{queue}}"),),
                    unit="s",
                ),
                Panel(
                    title="Waiting time",
                    about="From a job's submission to its first start.",
                    queries=quantiles("job_wait_seconds", ""),
                    unit="s",
                ),
                Panel(
                    title="Completion and learning",
                    about="Mean time from submission to the end, and to 90 % of the loss reduction (T90).",
                    queries=(
                        (
                            mean("job_completion_seconds", "pool", f'{IN_POOL}, outcome="finished"'),
                            "completion {{pool}}",
                        ),
                        (mean("job_t90_seconds", "pool"), "T90 {{pool}}"),
                    ),
                    unit="s",
                ),
                Panel(
                    title="Findings",
                    about="Jobs that were found to hang, idle or diverge in the range that is shown, and what followed.",
                    queries=(
                        (f"sum by (kind) (increase(steepest_findings_total{{{IN_POOL}}}[$__range])) > 0", "{{kind}}"),
                        (
                            f"sum by (kind, then) (increase(steepest_reactions_total{{{IN_POOL}}}[$__range])) > 0",
                            "{{kind}}: {{then}}",
                        ),
                    ),
                ),
                Panel(
                    title="Messages about findings",
                    about="By target; `failed` ones are tried again each minute.",
                    queries=(
                        (
                            f"sum by (target, outcome) (increase(steepest_notifications_total{{{IN_POOL}}}[$__range])) > 0",
                            "{{target}} {{outcome}}",
                        ),
                    ),
                ),
            ),
        ),
        (
            "Decisions",
            (
                Panel(
                    title="Plans by kind and outcome",
                    about="Plans that ended in the range that is shown.",
                    queries=(
                        (
                            f"sum by (kind, outcome) (increase(steepest_plans_total{{{IN_POOL}}}[$__range])) > 0",
                            "{{kind}} {{outcome}}",
                        ),
                    ),
                ),
                Panel(
                    title="Moves",
                    about="Jobs moved to another node, by the rule that moved them; `back`: to one that they had left.",
                    queries=(
                        (f"sum by (rule) (steepest_moves_total{{{IN_POOL}}})", "{{rule}}"),
                        (f"sum by (rule) (steepest_moves_back_total{{{IN_POOL}}}) > 0", "{{rule}} back"),
                    ),
                ),
                Panel(
                    title="Why plans were void",
                    about="By the code of the refusal. Some are normal: deciders decide at the same time.",
                    queries=(
                        (f"sum by (kind, refusal) (steepest_plans_void_total{{{IN_POOL}}})", "{{kind}}: {{refusal}}"),
                    ),
                ),
                Panel(
                    title="Suspensions and resumptions",
                    about="Jobs that gave way to more urgent ones, and that came back.",
                    queries=(
                        (
                            f'sum(steepest_plans_total{{{IN_POOL}, kind="suspend", outcome="finished"}})',
                            "suspended",
                        ),
                        (f"sum(steepest_resumptions_total{{{IN_POOL}}})", "resumed"),
                    ),
                ),
                Panel(
                    title="CPU limits",
                    about="Answers of the engine to limits, and the running jobs that have one in force.",
                    queries=(
                        (f"sum by (outcome) (steepest_limits_total{{{IN_POOL}}})", "{{outcome}}"),
                        (f"sum(steepest_jobs_limited{{{IN_POOL}}})", "jobs limited now"),
                    ),
                ),
                Panel(
                    title="Prediction errors",
                    about="How far predictions were off, as a share of what was measured.",
                    queries=quantiles("prediction_error_ratio", "of", legend="{{of}}"),
                    unit="percentunit",
                ),
            ),
        ),
        (
            "What decisions cost",
            (
                Panel(
                    title="Steps of plans",
                    about="95th percentile of the seconds of a step, by kind of plan.",
                    queries=(quantiles("plan_step_seconds", "kind, step", legend="{{kind}} {{step}}")[1],),
                    unit="s",
                ),
                Panel(
                    title="Pauses",
                    about="Mean seconds for which a job that was moved or scaled made no step.",
                    queries=((mean("plan_pause_seconds", "kind"), "{{kind}}"),),
                    unit="s",
                ),
                Panel(
                    title="Failed steps",
                    about="By step and code. Rising: see the runbook of SteepestMovesFailing.",
                    queries=(
                        (
                            f"sum by (kind, step, code) (steepest_plan_step_failures_total{{{IN_POOL}}})",
                            "{{kind}} {{step}}: {{code}}",
                        ),
                    ),
                ),
            ),
        ),
    ),
)

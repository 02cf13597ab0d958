"""Pools side by side, by their policies."""

from __future__ import annotations

from tools.monitoring.panels import DashboardDefinition, Panel, by_policy, quantiles

POLICIES = DashboardDefinition(
    uid="steepest-policies",
    title="Steepest: policies",
    about="Pools side by side, by the policy that is in force there. Compare pools with like nodes and like jobs only.",
    rows=(
        (
            "What jobs get",
            (
                Panel(
                    title="Time to learn (T90)",
                    about="Mean time from submission to 90 % of a job's own loss reduction.",
                    queries=((by_policy("job_t90_seconds"), "{{policy}}"),),
                    unit="s",
                ),
                Panel(
                    title="Completion time",
                    about="Mean time from submission to the end of jobs that finished.",
                    queries=((by_policy("job_completion_seconds", 'outcome="finished"'), "{{policy}}"),),
                    unit="s",
                ),
                Panel(
                    title="Waiting time",
                    about="Mean time from submission to the first start.",
                    queries=((by_policy("job_wait_seconds"), "{{policy}}"),),
                    unit="s",
                ),
            ),
        ),
        (
            "What it takes",
            (
                Panel(
                    title="CPU in use",
                    about="By pool and policy.",
                    queries=(
                        (
                            (
                                "(sum by (pool) (steepest_node_cpu_used_cores)"
                                " / sum by (pool) (steepest_node_cpu_capacity_cores))"
                                " * on (pool) group_left (policy) max by (pool, policy) (steepest_pool_info)"
                            ),
                            "{{pool}} {{policy}}",
                        ),
                    ),
                    unit="percentunit",
                    most=1.0,
                ),
                Panel(
                    title="Moves",
                    about="Finished moves by policy.",
                    queries=(
                        (
                            (
                                "sum by (policy) (sum by (pool) (steepest_moves_total)"
                                " * on (pool) group_left (policy) max by (pool, policy) (steepest_pool_info))"
                            ),
                            "{{policy}}",
                        ),
                    ),
                ),
                Panel(
                    title="Growth efficiency",
                    about="Median of FlowCon's growth efficiency, by the list that the job was in.",
                    queries=(quantiles("growth_efficiency_ratio", "list", 'pool=~".+"', "{{list}}")[0],),
                ),
            ),
        ),
    ),
)

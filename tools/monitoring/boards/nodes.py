"""The nodes of a pool."""

from __future__ import annotations

from tools.monitoring.panels import NODE, ON_NODE, POOL, DashboardDefinition, Panel

NODES = DashboardDefinition(
    uid="steepest-nodes",
    title="Steepest: nodes",
    about="What each node has, what is reserved and used of it, and whom it runs.",
    variables=(POOL, NODE),
    rows=(
        (
            "CPU",
            (
                Panel(
                    title="CPU used",
                    about="Measured use, as a share of the node.",
                    queries=(
                        (
                            f"steepest_node_cpu_used_cores{{{ON_NODE}}} / steepest_node_cpu_capacity_cores{{{ON_NODE}}}",
                            "{{node}}",
                        ),
                    ),
                    unit="percentunit",
                    most=1.0,
                ),
                Panel(
                    title="CPU reserved",
                    about="What jobs and valid plans reserve, as a share of the node.",
                    queries=(
                        (
                            (
                                f"steepest_node_cpu_reserved_cores{{{ON_NODE}}}"
                                f" / steepest_node_cpu_capacity_cores{{{ON_NODE}}}"
                            ),
                            "{{node}}",
                        ),
                    ),
                    unit="percentunit",
                    most=1.0,
                ),
                Panel(
                    title="Score",
                    about="The node's score by the categories of its jobs: SpeCon moves jobs to low ones.",
                    queries=((f"steepest_node_score{{{ON_NODE}}}", "{{node}}"),),
                ),
            ),
        ),
        (
            "Jobs and heartbeats",
            (
                Panel(
                    title="Replicas by category",
                    about="Who runs there.",
                    queries=(
                        (
                            f"sum by (node, category) (steepest_node_replicas{{{ON_NODE}}}) > 0",
                            "{{node}} {{category}}",
                        ),
                    ),
                ),
                Panel(
                    title="Silence",
                    about="Counted time since the last heartbeat; after 15 s the node is lost.",
                    queries=((f"steepest_node_silence_seconds{{{ON_NODE}}}", "{{node}}"),),
                    unit="s",
                ),
                Panel(
                    title="Up",
                    about="1 while the node sends heartbeats.",
                    queries=((f"steepest_node_up{{{ON_NODE}}}", "{{node}}"),),
                    most=1.0,
                ),
            ),
        ),
        (
            "Memory and GPUs",
            (
                Panel(
                    title="Memory used",
                    about="Resident memory of the jobs there.",
                    queries=((f"steepest_node_memory_used_bytes{{{ON_NODE}}}", "{{node}}"),),
                    unit="bytes",
                ),
                Panel(
                    title="Memory reserved",
                    about="What jobs and valid plans reserve.",
                    queries=((f"steepest_node_memory_reserved_bytes{{{ON_NODE}}}", "{{node}}"),),
                    unit="bytes",
                ),
                Panel(
                    title="GPUs reserved and there",
                    about="Whole ones and shares.",
                    queries=(
                        (f"steepest_node_gpu_reserved{{{ON_NODE}}}", "{{node}} reserved"),
                        (f"steepest_node_gpu_capacity{{{ON_NODE}}}", "{{node}} there"),
                    ),
                ),
            ),
        ),
    ),
)

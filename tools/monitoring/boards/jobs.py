"""Single jobs by name."""

from __future__ import annotations

from tools.monitoring.panels import JOB, OF_JOB, POOL, DashboardDefinition, Panel

JOBS = DashboardDefinition(
    uid="steepest-jobs",
    title="Steepest: jobs",
    about="Single jobs by name, where the setting `metrics.jobs` says that they have series of their own.",
    variables=(POOL, JOB),
    rows=(
        (
            "Learning",
            (
                Panel(
                    title="Loss",
                    about="The newest value of the evaluation function, by where the job runs.",
                    queries=((f"steepest_job_loss{{{OF_JOB}}}", "{{job_name}} on {{node}}"),),
                ),
                Panel(
                    title="Growth",
                    about="How much the job still learns an interval.",
                    queries=((f"steepest_job_growth{{{OF_JOB}}}", "{{job_name}}"),),
                ),
                Panel(
                    title="Category",
                    about="0: PC, 1: WC, 2: CC.",
                    queries=((f"steepest_job_category{{{OF_JOB}}}", "{{job_name}}"),),
                    most=2.0,
                ),
            ),
        ),
        (
            "Decisions",
            (
                Panel(
                    title="Step",
                    about="A line that stops and goes on elsewhere is a move.",
                    queries=((f"steepest_job_step{{{OF_JOB}}}", "{{job_name}} on {{node}}"),),
                ),
                Panel(
                    title="CPU limit",
                    about="The limit in force; no line: none.",
                    queries=((f"steepest_job_cpu_limit_cores{{{OF_JOB}}}", "{{job_name}}"),),
                ),
                Panel(
                    title="Moves and suspensions",
                    about="How often, and what they cost in steps.",
                    queries=(
                        (f"steepest_job_moves{{{OF_JOB}}}", "{{job_name}} moves"),
                        (f"steepest_job_suspensions{{{OF_JOB}}}", "{{job_name}} suspensions"),
                        (f"steepest_job_steps_lost{{{OF_JOB}}}", "{{job_name}} steps lost"),
                    ),
                ),
            ),
        ),
    ),
)

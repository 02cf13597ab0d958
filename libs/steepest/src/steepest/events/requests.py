"""What users ask for."""

from __future__ import annotations

import msgspec

from steepest.events.common import CheckpointMode, Count, Name, Resources, Text


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a user asks to run.

    Attributes:
        command: Program and arguments; no shell.
        working_dir: Where it runs.
        image: The container image to run it in; empty is the cluster's default.
        env: Variables added to its environment.
        requests: Reserved resources of each replica.
        replicas: How many processes; SpeCon's jobs have one.
        checkpoint_mode: What the user says; where None, what the process declares counts, else ``none``.
        retries: Failures after which it is started again.
        model: A name for people, of what is trained.
        metric: The evaluation function's name in the output.
        log_format: The format of its printed lines.
        pattern: An RE2 expression that reads its printed lines, instead of a format; empty: none.
        metrics_folder: A folder of TensorBoard event files, or an MLflow store, that its losses are read from too.
        device: The device over MQTT that may report its losses; None: only the node where it runs.
        first_node: Where to place it first (a paired comparison needs the same start); later moves are free.
    """

    command: tuple[str, ...]
    working_dir: str | None = None
    image: Text = ""
    env: dict[str, str] = {}
    requests: Resources = Resources(cpu_m=50)
    replicas: Count = 1
    checkpoint_mode: CheckpointMode | None = None
    retries: Count = 0
    model: Text = ""
    metric: Text = "loss"
    log_format: Text = "auto"
    pattern: Text = ""
    metrics_folder: Text = ""
    first_node: Name | None = None
    device: Name | None = None


class JobSubmitted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A user wants a job to run. The client makes ``request``, so that sending it twice submits once."""

    job: Name
    request: Text
    spec: JobSpec


class JobCancelRequested(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag=True):
    """A user wants a job to stop for good."""

    job: Name
    request: Text

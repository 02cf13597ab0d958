"""``steepest up``: the embedded system in the foreground.

It owns how a state folder comes to be and which parameters are asked for. It must never know what runs in the system.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from steepest.cli.nodes_of import IMAGE, cluster_option, engines, engines_as, refuse_others
from steepest.cli.options import PLACEMENT_NAMES, SPAN, NodeType, folder_option, policy_option
from steepest.cli.printing.output import tell

if TYPE_CHECKING:
    from steepest.app.state_folder import Installation, NodeSpec, StateFolder
    from steepest.events.parameters import PoolParameters
    from steepest.runtime.monitoring.probe import Address

EPILOG = """\b
Examples:
  steepest up
  steepest up --state /tmp/try --node big=1.2:4Gi --node small=0.4
  steepest up --alpha 0.02 --interval 10s --metrics 9400
  steepest up --policy specon+flowcon --placement flowcon2
  steepest up --cluster docker                 jobs are containers, on this machine's Docker engine
  steepest up --kafka auto                     every service a process, over a broker of its own (`make kafka`)
  steepest up --kafka kafka:9092 --scale categorizer=2
  steepest up --kafka kafka:9092 --service migrator --service log-collector    the others run elsewhere
  steepest up --mqtt broker:1883               and take in what devices say over MQTT
  steepest submit -- python train.py           from another terminal
  steepest down                                likewise

Jobs run in the environment of this process (PATH, VIRTUAL_ENV, ...), and go on when it stops or dies: the next `up` on
the same folder takes them over. `steepest down` stops them as well.
"""


class ScaleType(click.ParamType[tuple[str, int]]):
    """``NAME=NUMBER``: how many processes of a service."""

    name = "name=number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """The service's name and the number."""
        name, _, number = str(value).partition("=")
        if not (name and number.isdecimal() and 1 <= int(number) <= MOST_PROCESSES):
            self.fail(f"{value!r}: write it like categorizer=2", param, ctx)
        return name, int(number)


class AddressType(click.ParamType["Address"]):
    """``[HOST:]PORT``: where probes are answered."""

    name = "[host:]port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        """The address."""
        from steepest.runtime.monitoring.probe import Address

        host, _, port = str(value).rpartition(":")
        if not (port.isdecimal() and int(port) <= MOST_PORT):
            self.fail(f"{value!r}: write it like 9400 or 0.0.0.0:9400", param, ctx)
        return Address(int(port), host) if host else Address(int(port))


MOST_PORT = 65535
MOST_PROCESSES = 64

SHARES = (35, 28, 22, 15)
"""Sizes of the nodes of a new folder, in percent of what they have together: uneven, as real ones are."""

CORES_SHARE = 0.8
"""How much of the machine's cores the nodes have together: the rest is for the system itself and for whoever works here."""


@click.command(epilog=EPILOG)
@folder_option
@cluster_option
@click.option("--image", default=IMAGE, show_default=True, help="For jobs that name none, on Docker engines.")
@click.option("--kafka", metavar="HOST:PORT|auto", help="Run every service as a process, over Kafka.")
@click.option("--mqtt", metavar="HOST:PORT", help="Take in heartbeats and losses from this MQTT broker.")
@click.option("--scale", "scales", type=ScaleType(), multiple=True, help="Processes of a service. Repeat it.")
@click.option("--service", "services", metavar="NAME", multiple=True, help="Run only this service here. Repeat it.")
@click.option("--node", "nodes", type=NodeType(), multiple=True, help="An emulated node of a new folder. Repeat it.")
@click.option("--soft-limits", is_flag=True, help="On Docker engines: limits are weights, which leave nothing idle.")
@click.option(
    "--folder",
    "folders",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    help="On Docker engines: jobs may have this folder and all below it (where `up` made the state folder). Repeat it.",
)
@click.option("--heartbeat", type=SPAN, help="Period of the nodes' heartbeats in a new folder (500ms).")
@click.option("--alpha", type=click.FloatRange(0, min_open=True), help="SpeCon's growth threshold α (0.01).")
@click.option("--interval", type=SPAN, help="Length of the interval in which growth is measured (30s).")
@policy_option(None)
@click.option("--placement", type=click.Choice(PLACEMENT_NAMES), help="Which node an arrival gets (spread).")
@click.option("--metrics", type=AddressType(), help="Serve /metrics, /healthz and /readyz there (on 127.0.0.1).")
def up(
    state: Path,
    *,
    cluster: str | None,
    image: str,
    kafka: str | None,
    mqtt: str | None,
    scales: tuple[tuple[str, int], ...],
    services: tuple[str, ...],
    nodes: tuple[NodeSpec, ...],
    soft_limits: bool,
    folders: tuple[Path, ...],
    heartbeat: int | None,
    alpha: float | None,
    interval: int | None,
    policy: str | None,
    placement: str | None,
    metrics: Address | None,
) -> None:
    """Run the system until SIGTERM or SIGINT, telling what happens: in this process, or on Kafka.

    A state folder that is not there is made, with four nodes that have 80 % of this machine's cores together. --alpha,
    --interval, --policy and --placement are put in force where they differ from what the log holds; without them it
    keeps what it holds.
    """
    import asyncio
    import os

    from steepest.app.installation import kafka_place
    from steepest.app.state_folder import StateFolder
    from steepest.cli.running import run
    from steepest.cli.running_on_kafka import run_on_kafka
    from steepest.mqtt.settings import VARIABLE, mqtt_settings

    if mqtt is not None:
        os.environ[VARIABLE] = mqtt  # where the service finds it, also in a process of its own
    mqtt_settings(os.environ)
    folder = StateFolder(state)
    prepare(folder, nodes, heartbeat, cluster=cluster, image=image, soft_limits=soft_limits)
    let_jobs_have(folder, folders)

    def asked() -> PoolParameters | None:
        return wanted(folder, alpha, interval, policy=policy, placement=placement)

    if kafka is not None or kafka_place(folder) is not None or os.environ.get("STEEPEST_KAFKA"):
        run_on_kafka(folder, kafka, dict(scales), asked, metrics=metrics, only=services)
        return
    if scales or services:
        raise click.UsageError("--scale and --service are for services that are processes: see --kafka")
    asyncio.run(run(folder, asked(), metrics))


def prepare(
    folder: StateFolder,
    nodes: tuple[NodeSpec, ...],
    heartbeat_ms: int | None,
    *,
    cluster: str | None = None,
    image: str = IMAGE,
    soft_limits: bool = False,
) -> None:
    """Make the state folder, or make sure that it is what is asked for.

    Raises:
        InputError: It is there, with other nodes, limits or another heartbeat; or two nodes have one name.
    """
    from steepest.app.state_folder import Installation
    from steepest.errors import InputError

    if len({node.name for node in nodes}) < len(nodes):
        raise InputError("two nodes have the same name", hint="give each --node a name of its own")
    if not folder.exists:
        found = engines(cluster, nodes)
        if soft_limits and not found:
            raise InputError("soft limits are for Docker engines", hint="leave --soft-limits out, or name --cluster")
        asked = Installation(
            nodes=found or nodes or default_nodes(), image=image if found else "", soft_limits=soft_limits
        )
        folder.create(_with_heartbeat(asked, heartbeat_ms))
        return
    there = folder.read()
    keep_others_out(folder)
    refuse_others(cluster, there)
    if soft_limits and not there.soft_limits:
        raise InputError(
            f"{folder.root} is there already, with hard limits",
            hint="leave --soft-limits out, or begin with a new folder",
        )
    if nodes and any(node.engine for node in there.nodes):
        nodes = engines_as(nodes, there.nodes)
    asked = _with_heartbeat(Installation(nodes=nodes or there.nodes, heartbeat_ms=there.heartbeat_ms), heartbeat_ms)
    if (asked.nodes, asked.heartbeat_ms) != (there.nodes, there.heartbeat_ms):
        has = ", ".join(f"{node.name}={node.capacity.cpu_m}m" for node in there.nodes)
        raise InputError(
            f"{folder.root} is there already, with the nodes {has} and a heartbeat of {there.heartbeat_ms} ms",
            hint="leave --node and --heartbeat out, or begin with a new folder",
        )


def let_jobs_have(folder: StateFolder, folders: tuple[Path, ...]) -> None:
    """Put on record which folders containers may have: those named now, else those named before, else this one.

    Raises:
        InputError: Nodes are emulated, and jobs may have all that this user has.
    """
    import msgspec

    from steepest.errors import InputError

    there = folder.read()
    if not any(node.engine for node in there.nodes):
        if folders:
            raise InputError("--folder is for Docker engines", hint="leave it out, or name --cluster")
        return
    if folders or not there.folders:
        named = tuple(str(one.absolute()) for one in folders or (Path(),))
        folder.create(msgspec.structs.replace(there, folders=named))


def keep_others_out(folder: StateFolder) -> None:
    """Close a folder that is there, and say so: others may have read it."""
    try:
        if folder.keep_others_out():
            tell(f"{folder.root} was open to other users; it is yours alone now", err=True)
    except OSError as error:
        tell(f"Warning: {folder.root} is open to other users and stays so: {error.strerror}", err=True)


def _with_heartbeat(installation: Installation, heartbeat_ms: int | None) -> Installation:
    import msgspec

    return installation if heartbeat_ms is None else msgspec.structs.replace(installation, heartbeat_ms=heartbeat_ms)


def default_nodes() -> tuple[NodeSpec, ...]:
    """Nodes for this machine."""
    import os

    from steepest.app.state_folder import NodeSpec
    from steepest.events.common import Resources

    # The cores that this process may use, where the system tells: a container may have fewer than the machine.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    total_m = cores * 1000 * CORES_SHARE
    return tuple(
        NodeSpec(f"node-{number}", Resources(round(total_m * share / 1000) * 10))
        for number, share in enumerate(SHARES, start=1)
    )


def wanted(
    folder: StateFolder,
    alpha: float | None,
    interval_ms: int | None,
    *,
    policy: str | None = None,
    placement: str | None = None,
) -> PoolParameters | None:
    """The parameters to put in force; None: those that the log holds. FlowCon looks at as long an interval as SpeCon."""
    import msgspec

    from steepest.app.installation import kafka_of
    from steepest.cli.stored_pool import look
    from steepest.policies.named import under
    from steepest.view.cluster_view import ClusterView

    is_there = kafka_of(folder) is not None or (folder.log / "recording.json").exists()
    view = look(folder.root).view if is_there else ClusterView()
    before = view.parameters
    changes = {"alpha": alpha, "interval_ms": interval_ms}
    specon = msgspec.structs.replace(before.specon, **{name: new for name, new in changes.items() if new is not None})
    flowcon = msgspec.structs.replace(before.flowcon, interval_ms=interval_ms or before.flowcon.interval_ms)
    # The pool's clock must not be coarser than what it measures.
    after = msgspec.structs.replace(
        before,
        specon=specon,
        flowcon=flowcon,
        tick_ms=min(before.tick_ms, specon.interval_ms),
        placement=placement or before.placement,
    )
    after = after if policy is None else under(policy, after)
    return None if after == before else after

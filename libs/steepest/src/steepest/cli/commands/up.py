"""``steepest up``: the embedded system in the foreground.

It owns the creation of a state folder. It must never know what runs in the system.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from steepest.cli.options import KINDS, REACTIONS, SPAN, NodeType, OneOf, config_option, policy_option, state_option
from steepest.cli.printing.output import tell
from steepest.cli.system.node_selection import (
    IMAGE,
    LOCAL,
    cluster_option,
    emulated_nodes,
    engines,
    engines_as,
    own_node,
    refuse_others,
)
from steepest.policies.names import PlacementName, QueuePolicyName

if TYPE_CHECKING:
    from steepest.app.settings.tree import ClusterSettings, Settings
    from steepest.app.state_folder import Installation, NodeSpec, StateFolder

LIMIT = "WHOSE:jobs=N:replicas=N:cpu=N:memory=SIZE:gpus=N"
_RIGHTS = ("host_network", "system_checkpoints")  # of jobs; what was said before counts until something else is

EPILOG = """\b
Examples:
  steepest up
  steepest up --state /tmp/try --node big=1.2:4Gi --node small=0.4
  steepest up --state /tmp/try --emulate
  steepest up --alpha 0.02 --interval 10s --metrics 9400
  steepest up --gateway 8080                   with the live page on http://127.0.0.1:8080
  steepest up --config steepest.toml           every setting from a file (docs/settings.md)
  steepest up --policy specon+flowcon --placement flowcon2
  steepest up --cluster docker                 jobs are containers, on this machine's Docker engine
  steepest up --cluster kubernetes=training/shared:/mnt/shared    jobs are Jobs in a namespace of a cluster
  steepest up --kafka auto                     every service a process, over a broker of its own (`make kafka`)
  steepest up --kafka kafka:9092 --scale categorizer=2
  steepest up --kafka kafka:9092 --service migrator --service log-collector    the others run elsewhere
  steepest up --mqtt broker:1883               and take in what devices say over MQTT
  steepest submit -- python train.py           from another terminal
  steepest down                                from another terminal

Jobs run in the environment of this process (PATH, VIRTUAL_ENV, ...), and go on when it stops or dies: the next `up` on
the same folder takes them over. `steepest down` stops them as well.
"""


class ScaleType(click.ParamType[str]):
    """``NAME=NUMBER``: how many processes of a service."""

    name = "name=number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, which says so."""
        from steepest.app.settings.tree import scale

        try:
            scale(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class AddressType(click.ParamType[tuple[str | None, int]]):
    """``[HOST:]PORT``: where probes are answered."""

    name = "[host:]port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str | None, int]:
        """The host, if one is named, and the port."""
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not (port.isdecimal() and int(port) <= MOST_PORT):
            self.fail(f"{value!r}: write it like 9400 or 0.0.0.0:9400", param, ctx)
        return host or None, int(port)


MOST_PORT = 65535

AS_NAMED = (
    "alpha", "policy", "placement", "queueing", "blocking", "preempt", "max_suspensions", "queue_limits", "user_limits",
    "on_hung", "on_diverged", "on_idle", "drain_slow",
)  # fmt: skip
"""Parameters of the pool whose options have their names."""


@click.command(epilog=EPILOG)
@state_option
@config_option
@cluster_option
@click.option("--image", help=f"Run jobs that name no image in this one, on Docker engines ({IMAGE}).")
@click.option("--kafka", metavar="HOST:PORT|auto", help="Run every service as a process over this Kafka cluster.")
@click.option("--pool", metavar="NAME", help="Run this pool alone; default: all that `steepest pool list` shows.")
@click.option("--mqtt", metavar="HOST:PORT", help="Take in heartbeats and losses from this MQTT broker.")
@click.option(
    "--scale", "scales", type=ScaleType(), multiple=True, help="Run so many processes of a service. Repeat it."
)
@click.option("--service", "services", metavar="NAME", multiple=True, help="Run only this service here. Repeat it.")
@click.option(
    "--node", "nodes", type=NodeType(), multiple=True, help="Add an emulated node to a new folder. Repeat it."
)
@click.option("--emulate", is_flag=True, help="Give a new folder four uneven nodes that share this machine's cores.")
@click.option("--soft-limits", is_flag=True, help="Make CPU limits weights, which leave nothing idle (Docker engines).")
@click.option("--host-network/--no-host-network", default=None, help="Give gangs on Docker their host's network (no).")
@click.option(
    "--system-checkpoints/--no-system-checkpoints", default=None, help="Let jobs have keepers (on Docker: no)."
)
@click.option(
    "--storage",
    metavar="URL",
    help="Let jobs of a new folder read their data from this server, and count what they read.",
)
@click.option(
    "--folder",
    "folders",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    help="Let jobs on Docker engines use this folder (default: where `up` made the state folder). Repeat it.",
)
@click.option(
    "--kind",
    "kinds",
    type=OneOf(KINDS),
    multiple=True,
    help="Schedule users' objects of this kind too. Repeat it.",
)
@click.option(
    "--namespace",
    "namespaces",
    metavar="NAME",
    multiple=True,
    help="Schedule users' objects of this namespace too, which has a claim of the same name. Repeat it.",
)
@click.option("--heartbeat", type=SPAN, help="Set the period of heartbeats of a new folder (500ms).")
@click.option(
    "--link-mbit", type=click.IntRange(1), help="Join the emulated nodes of a new folder by links of this rate (root)."
)
@click.option("--alpha", type=click.FloatRange(0, min_open=True), help="Set SpeCon's growth threshold α (0.01).")
@click.option("--interval", type=SPAN, help="Measure growth over intervals of this length (30s).")
@policy_option(None)
@click.option("--placement", type=OneOf(get_args(PlacementName)), help="Place arrivals by this policy (spread).")
@click.option("--queueing", type=OneOf(get_args(QueuePolicyName)), help="Place waiting jobs in this order (fifo).")
@click.option("--blocking/--no-blocking", default=None, help="Let a job without room hold back those behind it (no).")
@click.option("--preempt/--no-preempt", default=None, help="Suspend less urgent jobs, under priority (no).")
@click.option("--min-run", type=SPAN, help="Suspend no job that has run for less than this (1min).")
@click.option("--max-suspensions", type=click.IntRange(0), help="Suspend no job more often than this (5).")
@click.option("--on-hung", type=OneOf(REACTIONS), help="Do this about a job that hangs (notify).")
@click.option("--on-diverged", type=OneOf(REACTIONS), help="Do this about one whose loss diverges (notify).")
@click.option("--on-idle", type=OneOf(REACTIONS), help="Do this about one that uses nothing for long (notify).")
@click.option(
    "--queue-limit", "queue_limits", multiple=True, metavar=LIMIT, help="Limit what a queue may hold. Repeat it."
)
@click.option("--user-limit", "user_limits", multiple=True, metavar=LIMIT, help="Limit a user, or each (*). Repeat it.")
@click.option("--half-life", type=SPAN, help="Let a user's use count half after this, under fair (1d).")
@click.option("--drain-slow/--no-drain-slow", default=None, help="Close nodes on which jobs are slow for long (no).")
@click.option("--metrics", type=AddressType(), help="Serve /metrics, /healthz and /readyz there (on 127.0.0.1).")
@click.option("--gateway", type=AddressType(), help="Serve the live page and the HTTP API there (on 127.0.0.1).")
def up(config: Path | None, **options: Any) -> None:
    """Run the system until SIGTERM or SIGINT, and print what happens: in this process, or on Kafka.

    A state folder that is not there is made, with this machine as its node: nine tenths of its cores and memory, and its
    GPUs. --alpha, --interval, --policy, --placement, --queueing and what concerns queues and users are put in force where
    they differ from what the log holds. `steepest config show` prints all settings.
    """
    from steepest.app.settings.reading import read_settings
    from steepest.cli.system.foreground import run_embedded, run_on_kafka
    from steepest.cli.system.wanted_parameters import wanted_aloud

    settings = read_settings(flags_of(**options), config)
    prepare(settings)
    let_jobs_have(settings.folder, settings.cluster)
    if settings.kafka.bootstrap:
        refuse_jobs_in_files(settings)
        run_on_kafka(settings, wanted_aloud)
        return
    if settings.services.scale or settings.services.only:
        raise click.UsageError("--scale and --service are for services that are processes: see --kafka")
    run_embedded(settings, wanted_aloud)


def flags_of(
    *,
    metrics: tuple[str | None, int] | None,
    soft_limits: bool,
    gateway: tuple[str | None, int] | None = None,
    **options: Any,
) -> dict[str, object]:
    """The options of the command line, by the settings' paths; None and () mean that one was not given."""
    host, port = metrics or (None, None)
    page_host, page_port = gateway or (None, None)
    return {
        "state_dir": options["state"],
        "pool": options["pool"],
        "metrics.port": port,
        "metrics.host": host,
        "gateway.port": page_port,
        "gateway.host": page_host,
        "kafka.bootstrap": options["kafka"],
        "mqtt.broker": options["mqtt"],
        "cluster.adapter": options["cluster"],
        "cluster.nodes": options["nodes"],
        "cluster.emulate": options["emulate"] or None,
        "cluster.image": options["image"],
        "cluster.soft_limits": soft_limits or None,
        "cluster.host_network": options["host_network"],
        "cluster.system_checkpoints": options["system_checkpoints"],
        "cluster.storage": options["storage"],
        "cluster.folders": options["folders"],
        "cluster.kinds": options["kinds"],
        "cluster.namespaces": options["namespaces"],
        "cluster.heartbeat_ms": options["heartbeat"],
        "cluster.link_mbit": options["link_mbit"],
        **{f"parameters.{name}": options[name] for name in AS_NAMED},
        **{f"parameters.{name}_ms": options[name] for name in ("interval", "min_run", "half_life")},
        "services.only": options["services"],
        "services.scale": options["scales"],
    }


def refuse_jobs_in_files(settings: Settings) -> None:
    """A folder keeps its log: over another one its jobs would vanish, and new ones of their names would never run.

    Raises:
        InputError: The folder's log is in files, and holds jobs.
    """
    import msgspec

    from steepest.cli.pool.stored_pool import look
    from steepest.describe import count
    from steepest.errors import InputError
    from steepest.log.kafka.kafka_settings import KafkaSettings

    folder = settings.folder
    if folder.kafka_place() is not None or not folder.has_log_in_files:
        return
    jobs = look(msgspec.structs.replace(settings, kafka=KafkaSettings())).view.jobs
    unfinished = sum(job.outcome is None for job in jobs)
    if len(jobs):
        raise InputError(
            f"the log of {folder.root} is in files and holds {count(len(jobs), 'job')} ({unfinished} unfinished), "
            "which would not be there on Kafka",
            code="other-log",
            hint="go on with it by `steepest up` without Kafka, or name another folder with --state",
        )


def prepare(settings: Settings) -> None:
    """Make the state folder, or make sure that it is what is asked for.

    Raises:
        InputError: It is there, with other nodes, limits or another heartbeat; or two nodes have one name.
    """
    from steepest.app.state_folder import Installation
    from steepest.cluster.data_source import data_source
    from steepest.errors import InputError

    folder, asked = settings.folder, settings.cluster
    nodes = _asked_nodes(asked)
    if len({one.name for one in nodes}) < len(nodes):
        raise InputError("two nodes have the same name", hint="give each node a name of its own")
    if asked.storage:
        data_source(asked.storage)  # refuses what is no address
        if asked.link_mbit is not None:
            raise InputError("nodes that links join reach no storage", hint="leave out --storage or the links")
    if not folder.exists:
        if asked.link_mbit is not None:
            _refuse_links(asked)
        found = engines(asked.adapter, nodes)
        _refuse_on_kubernetes(asked)
        if asked.soft_limits and not found:
            raise InputError("soft limits are for Docker engines", hint="leave --soft-limits out, or name --cluster")
        new = Installation(
            nodes=found or nodes or own_node(),
            image=asked.image if found else "",
            soft_limits=asked.soft_limits,
            storage=asked.storage,
            link_mbit=asked.link_mbit,
        )
        folder.create(_with_heartbeat(new, asked.heartbeat_ms))
        return
    there = folder.read()
    keep_others_out(folder)
    refuse_others(asked.adapter, there)
    if asked.soft_limits and not there.soft_limits:
        raise InputError(
            f"{folder.root} is there already, with hard limits",
            hint="leave --soft-limits out, or begin with a new folder",
        )
    if asked.storage and asked.storage != there.storage:
        raise InputError(
            f"{folder.root} is there already, with the storage {there.storage or 'none'}",
            hint="leave --storage out, or begin with a new folder",
        )
    if asked.link_mbit not in (None, there.link_mbit):
        has = f"links of {there.link_mbit} Mbit/s" if there.link_mbit else "no links"
        raise InputError(
            f"{folder.root} is there already, with {has}", hint="leave --link-mbit out, or begin with a new folder"
        )
    if nodes and any(one.engine for one in there.nodes):
        nodes = engines_as(nodes, there.nodes)
    new = _with_heartbeat(Installation(nodes=nodes or there.nodes, heartbeat_ms=there.heartbeat_ms), asked.heartbeat_ms)
    if (new.nodes, new.heartbeat_ms) != (there.nodes, there.heartbeat_ms):
        has = ", ".join(f"{one.name}={one.capacity.cpu_m}m" for one in there.nodes)
        raise InputError(
            f"{folder.root} is there already, with the nodes {has} and a heartbeat of {there.heartbeat_ms} ms",
            hint="leave --node and --heartbeat out, or begin with a new folder",
        )


def _asked_nodes(asked: ClusterSettings) -> tuple[NodeSpec, ...]:
    from steepest.app.settings.amounts import node
    from steepest.errors import InputError

    if not asked.emulate:
        return tuple(map(node, asked.nodes))
    if asked.nodes:
        raise InputError("--emulate makes its own nodes", hint="leave it out, or --node")
    return emulated_nodes()


def _refuse_links(asked: ClusterSettings) -> None:
    """Say before anything is made that nodes cannot be joined by links.

    Raises:
        InputError: They cannot be made here, the nodes are engines, or jobs must reach a storage server.
    """
    from steepest.cluster.local.links import why_not
    from steepest.errors import InputError

    if asked.adapter not in (None, LOCAL):
        raise InputError("links are for emulated nodes", hint="leave --link-mbit out")
    if asked.storage:
        raise InputError("over links, jobs reach no storage server", hint="leave --link-mbit out, or --storage")
    if why := why_not():
        raise InputError(
            f"links between nodes cannot be made here: {why}",
            code="no-links",
            hint="run it as root, or without --link-mbit",
        )


def let_jobs_have(folder: StateFolder, asked: ClusterSettings) -> None:
    """Put on record what jobs may have: keepers, and in containers the network and folders.

    The folders are those named now, else those before, else this one. Also which users' objects are scheduled: their kinds
    and namespaces.

    Raises:
        InputError: Nodes are emulated, and jobs may have all that this user has; or nodes are no Kubernetes cluster's, and
            have no objects of users; or a namespace is named twice; or jobs could reach the state folder.
    """
    import msgspec

    from steepest.cluster.allowed_folders import Allowed
    from steepest.errors import InputError

    there = folder.read()
    _refuse_users_objects(there.kubernetes(there.pool), asked)
    named = there.folders
    if not any(node.engine for node in there.nodes):
        for flag, given in _of_containers(asked).items():
            if given and flag != "--system-checkpoints":
                raise InputError(f"{flag} is for Docker engines", hint="leave it out, or name --cluster")
    elif not there.kubernetes(there.pool):
        allowed = Allowed.named(map(Path, asked.folders or named or (".",)), folder.root)
        named = tuple(map(str, allowed.folders))
    rights = {name: getattr(there if getattr(asked, name) is None else asked, name) for name in _RIGHTS}
    wanted = msgspec.structs.replace(
        there,
        folders=named,
        **rights,
        kinds=asked.kinds or there.kinds,
        namespaces=asked.namespaces or there.namespaces,
    )
    if wanted != there:
        folder.create(wanted)


def _of_containers(asked: ClusterSettings) -> dict[str, object]:
    """The options of Docker engines alone, by flag."""
    return {f"--{name.replace('_', '-')}": getattr(asked, name) for name in _RIGHTS} | {"--folder": asked.folders}


def _refuse_users_objects(cluster: str, asked: ClusterSettings) -> None:
    """Refuse what no cluster has, or this one has already. ``cluster``: the address of Kubernetes; empty: there is none.

    Raises:
        InputError: It is asked for.
    """
    from steepest.errors import InputError

    for given, flag in ((bool(asked.kinds), "--kind"), (bool(asked.namespaces), "--namespace")):
        if given and not cluster:
            raise InputError(f"{flag} is for Kubernetes", hint="leave it out, or name --cluster")
    if asked.namespaces:
        from steepest.cluster.kubernetes.address import address

        named = (address(cluster).namespace, *asked.namespaces)
        if len(set(named)) < len(named):
            raise InputError("a namespace is named twice", hint="name each once, and not the one of --cluster")


def _refuse_on_kubernetes(asked: ClusterSettings) -> None:
    """Refuse what pods do not have.

    Raises:
        InputError: It is asked for.
    """
    from steepest.errors import InputError

    given = {"--soft-limits": asked.soft_limits, "--storage": asked.storage, **_of_containers(asked)}
    del given["--system-checkpoints"]
    if (asked.adapter or "").startswith("kubernetes="):
        for flag, value in given.items():
            if value:
                raise InputError(f"{flag} is not for Kubernetes", hint="leave it out")


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

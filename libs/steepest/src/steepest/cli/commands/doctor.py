"""``steepest doctor``: what nodes lack for system checkpoints, or a Kubernetes cluster for jobs of Steepest."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from steepest.cli.printing.output import give
from steepest.cli.system.node_selection import IMAGE, cluster_option, engines, own_node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steepest.app.state_folder import NodeSpec, StateFolder
    from steepest.cluster.kubernetes.doctor import Finding, Patient

EPILOG = """\b
Examples:
  steepest doctor                                                              whether jobs can be moved unchanged here
  steepest doctor --cluster docker=gpu1,gpu2                                   and on these Docker engines
  steepest doctor --namespace training --claim shared
  steepest doctor --namespace steepest --claim steepest --account steepest     what that service account may do
  steepest doctor --namespace training --claim shared --users-namespace team-a    and what a further namespace lacks
  steepest doctor --namespace training --claim shared --json | jq '.[] | select(.health == "missing")'

The cluster is that of KUBECONFIG, of ~/.kube/config, or of the pod that this runs in.
"""

COLOURS = {"ok": "green", "missing": "red", "unknown": "yellow"}


@click.command(epilog=EPILOG)
@click.option(
    "--namespace", help="The namespace of the jobs; without it and --claim, this machine or --cluster is examined."
)
@click.option("--claim", help="The claim of the volume that jobs share, in that namespace.")
@click.option("--account", default="", help="Check the rights of this service account of the namespace, not yours.")
@click.option(
    "--users-namespace",
    "users_namespaces",
    metavar="NAME",
    multiple=True,
    help="Check this namespace too, whose users' objects are to be scheduled. Repeat it.",
)
@click.option(
    "--kubeconfig", type=click.Path(path_type=Path), default=None, help="The file that says where the cluster is."
)
@cluster_option
@click.option("--image", default=IMAGE, show_default=True, help="With --cluster docker: the image of the trial.")
@click.option("--json/--no-json", "as_json", default=False, help="Print one JSON list and nothing else.")
def doctor(
    *,
    namespace: str | None,
    claim: str | None,
    account: str,
    users_namespaces: tuple[str, ...],
    kubeconfig: Path | None,
    cluster: str | None,
    image: str,
    as_json: bool,
) -> None:
    """Tell what a Kubernetes cluster lacks for jobs of Steepest, or this machine or engines for jobs that move unchanged.

    A process that is saved and restored is removed again; nothing else is changed. Exits with 0 if all that is needed is
    there, and with 1 if something is missing or unknown.
    """
    import asyncio

    from steepest.cli.quiet import quiet
    from steepest.errors import InputError

    quiet()
    if namespace is None and claim is None:
        _examine_nodes(engines(cluster) or own_node(), image, as_json=as_json)
    if namespace is None or claim is None:
        raise click.UsageError("--namespace and --claim belong together; without both, this machine is examined")
    try:
        from steepest.cluster.kubernetes.doctor import CheckHealth, Patient
    except ImportError as error:
        raise InputError(
            f"the client of Kubernetes is missing: {error}", hint="install steepest[kubernetes]"
        ) from error
    patient = Patient(namespace=namespace, claim=claim, account=account, users_namespaces=users_namespaces)
    found = asyncio.run(_examined(kubeconfig, patient))
    if as_json:
        give(found)
    else:
        _show(found)
    sys.exit(int(any(one.health in {CheckHealth.MISSING, CheckHealth.UNKNOWN} for one in found)))


def _examine_nodes(nodes: tuple[NodeSpec, ...], image: str, *, as_json: bool) -> NoReturn:
    """Move a process within each node, and on to the next one; these are jobs of a folder that is removed afterwards."""
    import asyncio
    import tempfile

    from steepest.app.state_folder import Installation, StateFolder
    from steepest.cli.printing.output import tell

    with tempfile.TemporaryDirectory(prefix=".steepest-doctor-", dir=_place_of(nodes[0].engine)) as name:
        folder = StateFolder(Path(name) / "state")
        folder.create(Installation(nodes=nodes, image=image, system_checkpoints=True))
        found = asyncio.run(_moved(folder, [node.name for node in nodes]))
    if as_json:
        give([{"check": check, "health": "missing" if why else "ok", "found": why} for check, why in found.items()])
    else:
        for check, why in found.items():
            health = ("missing ", {"fg": COLOURS["missing"]}) if why else ("ok      ", {"fg": COLOURS["ok"]})
            tell(f"{check}  ", health, why or "a process was saved and restored")
    sys.exit(int(any(found.values())))


def _place_of(engine: str) -> Path | None:
    """Where such nodes find a state folder; None: anywhere."""
    if engine.startswith("kubernetes://"):
        from steepest.cluster.kubernetes.address import address

        return address(engine).volume
    return Path.cwd() if engine else None


async def _moved(folder: StateFolder, names: Sequence[str]) -> dict[str, str]:
    from steepest.app.installation import open_cluster
    from steepest.cluster.trial_move import trial_move

    installation = folder.read()
    cluster = open_cluster(folder, installation, installation.pool)
    try:
        ways = {f"system checkpoints on {one}": (one, one) for one in names}
        ways |= {f"from {one} to {other}": (one, other) for one, other in pairwise(names)}
        return {check: await trial_move(cluster, *way) for check, way in ways.items()}
    finally:
        await cluster.close()


async def _examined(kubeconfig: Path | None, patient: Patient) -> list[Finding]:
    from steepest.cluster.kubernetes.api import KubernetesApi
    from steepest.cluster.kubernetes.doctor import examine

    api = KubernetesApi(kubeconfig)
    try:
        return await examine(api, patient)
    finally:
        await api.close()


def _show(found: Sequence[Finding]) -> None:
    from steepest.cli.printing.output import tell

    width = max(len(one.check) for one in found)
    for one in found:
        health = (f"{one.health.value:<8}", {"fg": COLOURS.get(one.health.value)})
        tell(f"{one.check:<{width}}  ", health, one.found)
        if one.mend:
            tell(" " * (width + 10), one.mend)

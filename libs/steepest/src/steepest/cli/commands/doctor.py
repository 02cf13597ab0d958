"""``steepest doctor``: what this machine lacks for system checkpoints, or a Kubernetes cluster for jobs of Steepest."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from steepest.cli.printing.output import give

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steepest.cluster.kubernetes.doctor import Finding, Patient

EPILOG = """\b
Examples:
  steepest doctor                                                              whether jobs can be moved unchanged here
  steepest doctor --namespace training --claim shared
  steepest doctor --namespace steepest --claim steepest --account steepest     what that service account may do
  steepest doctor --namespace training --claim shared --users-namespace team-a    and what a further namespace lacks
  steepest doctor --namespace training --claim shared --json | jq '.[] | select(.health == "missing")'

The cluster is that of KUBECONFIG, of ~/.kube/config, or of the pod that this runs in.
"""

COLOURS = {"ok": "green", "missing": "red", "unknown": "yellow"}


@click.command(epilog=EPILOG)
@click.option("--namespace", help="The namespace of the jobs; without it and --claim, this machine is examined.")
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
@click.option("--json/--no-json", "as_json", default=False, help="Print one JSON list and nothing else.")
def doctor(
    namespace: str | None,
    claim: str | None,
    account: str,
    users_namespaces: tuple[str, ...],
    kubeconfig: Path | None,
    *,
    as_json: bool,
) -> None:
    """Tell what a Kubernetes cluster lacks for jobs of Steepest, or this machine for jobs that are moved unchanged.

    Nothing is changed. Exits with 0 if all that is needed is there, and with 1 if something is missing or unknown.
    """
    import asyncio

    from steepest.errors import InputError

    if namespace is None and claim is None:
        _examine_machine(as_json=as_json)
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


def _examine_machine(*, as_json: bool) -> NoReturn:
    import tempfile

    from steepest.cli.printing.output import tell
    from steepest.cluster.keepers import find_programs, round_trip, why_unable
    from steepest.cluster.local.groups import find_groups

    programs = find_programs()
    if isinstance(programs, str):
        why = programs
    else:
        with tempfile.TemporaryDirectory() as folder:
            groups = find_groups(Path(folder))
        why = why_unable(programs, has_groups=groups is not None) or round_trip(programs)
    if as_json:
        give([{"check": "system checkpoints", "health": "missing" if why else "ok", "found": why}])
    else:
        health = ("missing ", {"fg": COLOURS["missing"]}) if why else ("ok      ", {"fg": COLOURS["ok"]})
        tell("system checkpoints  ", health, why or "a process was saved and restored")
    sys.exit(int(bool(why)))


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

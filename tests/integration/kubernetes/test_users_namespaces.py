"""Jobs that users make in a further namespace: they start, give way and go on there, and no other namespace is concerned."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.integration.kubernetes.figures import Figures
from tests.integration.kubernetes.opted_in import OPTED_IN, changes, opened_team, placed_in, users_job
from tests.integration.kubernetes.test_rights import may
from tests.integration.kubernetes.users_gangs import GANG, PODS, gives_way_and_goes_on, giving_way, made

from steepest.cli.main import main
from tools.kubernetes_lab.lab import KubernetesLab
from tools.kubernetes_lab.layout import CLAIM, NAMESPACE

NEEDED = (
    *((verb, "jobs.batch") for verb in ("list", "watch", "patch")),
    *((verb, "pods") for verb in ("get", "list", "watch", "patch", "delete")),
    *(("get", "pods/log"), ("patch", "pods/resize"), ("create", "events.events.k8s.io")),
)
DENIED = (
    *((verb, "jobs.batch") for verb in ("get", "create", "delete", "update")),
    *((verb, "pods") for verb in ("create", "update")),
    *(("create", "pods/exec"), ("create", "services"), ("get", "secrets"), ("get", "persistentvolumeclaims")),
    *((verb, "events.events.k8s.io") for verb in ("get", "list", "patch", "delete")),
)


@pytest.fixture
def team(lab: KubernetesLab, kubeconfig: Path, open_state: Path, tmp_path: Path) -> Iterator[str]:
    """A further namespace, for the account of that kubeconfig."""
    del kubeconfig
    with opened_team(lab, open_state, tmp_path) as name:
        yield name


@pytest.fixture
def other(lab: KubernetesLab) -> Iterator[str]:
    """A namespace that no installation names."""
    name = f"other-{secrets.token_hex(3)}"
    lab.kubectl("create", "namespace", name)
    yield name
    lab.kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.timeout(400)
def test_a_job_of_a_further_namespace_gives_way_and_goes_on(
    lab: KubernetesLab, team: str, other: str, figures: Figures, request: pytest.FixtureRequest
) -> None:
    """From the step that it saved, in its own namespace; one in a namespace that is not named is never touched."""
    state, kubeconfig = (request.getfixturevalue(name) for name in ("open_state", "kubeconfig"))
    stranger = placed_in(other, users_job("opted-in-stranger", opted_in=False))
    stranger["metadata"]["labels"] = OPTED_IN
    lab.kubectl("create", "-f", "-", content=stranger)
    before = len(changes(lab))
    with giving_way(lab, kubeconfig, state, "--namespace", team) as system:
        gives_way_and_goes_on(system, lab, placed_in(team, users_job(GANG, opted_in=True, pods=PODS)), "Complete")
    failed = made(lab, "job", GANG, team)["status"].get("failed", 0)
    figures.count(status_failed=failed)
    written = [one["objectRef"].get("namespace") for one in changes(lab)[before:]]
    figures.count(untouched_writes=written.count(other))

    assert failed == 0
    assert set(written) == {team, NAMESPACE}
    assert made(lab, "job", "opted-in-stranger", other)["spec"]["suspend"] is False


def test_the_rights_in_a_further_namespace_are_the_least(
    lab: KubernetesLab, kubeconfig: Path, team: str, other: str, figures: Figures
) -> None:
    """What its objects need, as the API server itself says; in a namespace that is not named there are none."""
    missing = [one for one in NEEDED if not may(lab, kubeconfig, *one, team)]
    excess = [one for one in DENIED if may(lab, kubeconfig, *one, team)]
    excess += [one for one in NEEDED if one[1] != "pods" and may(lab, kubeconfig, *one, other)]
    figures.count(rbac_excess=len(excess))

    assert (missing, excess) == ([], [])


def test_the_doctor_finds_what_a_further_namespace_lacks(lab: KubernetesLab, team: str, other: str) -> None:
    """It examines each by itself."""
    names = ("--users-namespace", team, "--users-namespace", other)
    order = ["doctor", "--kubeconfig", str(lab.folder.kubeconfig), "--account", "steepest"]
    done = CliRunner().invoke(main, [*order, "--namespace", NAMESPACE, "--claim", CLAIM, *names])
    lines = done.stdout.splitlines()

    assert done.exit_code == 1
    for check in ("namespace", "volume", "rights", "users-jobs", "guard"):
        assert [line.split()[1] for line in lines if line.startswith(f"{team}/{check} ")] == ["ok"]
        wanted = "ok" if check == "namespace" else "missing"
        assert [line.split()[1] for line in lines if line.startswith(f"{other}/{check} ")] == [wanted]

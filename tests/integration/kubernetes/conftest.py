"""Two real nodes for the session, and an empty state folder on their volume for every test."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from tests.harness.contracts.cluster_harness import ClusterFixture
from tests.integration.kubernetes.figures import Figures
from tests.integration.kubernetes.nodes_harness import KubernetesHarness
from tests.integration.kubernetes.opted_in import opened
from tests.integration.kubernetes.users_gangs import GANG

from tools.kubernetes_lab.controllers import LabController
from tools.kubernetes_lab.job_sets import JobSetController
from tools.kubernetes_lab.lab import KubernetesLab, missing, running_lab
from tools.kubernetes_lab.layout import NAMESPACE, default_folder
from tools.kubernetes_lab.pytorch_jobs import PyTorchJobController
from tools.kubernetes_lab.train_jobs import TrainerController

RIGHTS = Path(__file__).parents[3] / "deploy" / "kubernetes" / "rights.yaml"
FIGURES = pytest.StashKey[Figures]()
PART = pytest.StashKey[bool]()
HERE = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption(
        "--bounds", action="store_true", help="fail where a move is slow: for a machine that does nothing else"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin without figures."""
    config.stash[FIGURES] = Figures()
    config.stash[PART] = False


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """A run of some tests has not measured everything."""
    if items:
        items[0].config.stash[PART] = True


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where every test of the folder has passed, what they counted must be as it must, and with ``--bounds`` times too."""
    config = session.config
    asked = {config.rootpath / each for each in config.args}
    is_whole = HERE in asked and not config.stash[PART] and not config.option.collectonly
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if not is_whole or skipped or session.exitstatus != pytest.ExitCode.OK:
        return
    figures = config.stash[FIGURES]
    wrong, slow = figures.wrong(), figures.slow()
    if wrong or slow:
        print(f"\nmeasured by all tests together: {'; '.join(wrong + slow)}")  # noqa: T201 - the reason
    if wrong or (slow and config.option.bounds):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """Print what was measured as the last line, as one JSON object."""
    print(config.stash[FIGURES].own_parts())  # noqa: T201 - what the result's part consists of
    print(config.stash[FIGURES])  # noqa: T201 - the result


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Figures:
    """What the tests measured so far."""
    return request.config.stash[FIGURES]


@pytest.fixture(scope="session")
def lab() -> Iterator[KubernetesLab]:
    """The lab: one that runs already, or one that runs for this session."""
    folder = default_folder()
    if why := missing(folder):
        pytest.skip(f"{why}; get it with: make engine images kubernetes")
    with running_lab(folder) as running:
        yield running


@pytest.fixture(scope="session")
def kubeconfig(lab: KubernetesLab) -> Path:
    """That of the service account with the rights that an installation is given."""
    lab.kubectl("apply", "-f", str(RIGHTS))
    return lab.kubeconfig_of("steepest")


@pytest.fixture(scope="session")
def job_set_controller(lab: KubernetesLab) -> Iterator[str]:
    """JobSet's own controller, as long as it can run; empty, or why it cannot."""
    with running(lab, JobSetController()) as why:
        yield why


@pytest.fixture(scope="session")
def trainer(lab: KubernetesLab, job_set_controller: str) -> Iterator[str]:
    """Kubeflow's Trainer, likewise, beside JobSet's controller."""
    if job_set_controller:
        yield job_set_controller
        return
    with running(lab, TrainerController()) as why:
        yield why


@pytest.fixture
def open_state(lab: KubernetesLab, kubeconfig: Path, tmp_path: Path) -> Iterator[Path]:
    """A state folder on the volume, in a namespace that is open for users' Jobs."""
    del kubeconfig
    with opened(lab, tmp_path) as made:
        yield made
        lab.kubectl("-n", NAMESPACE, "delete", "job", GANG, "--ignore-not-found")


@pytest.fixture(scope="session")
def training_operator(lab: KubernetesLab) -> Iterator[str]:
    """Kubeflow's training operator, likewise."""
    with running(lab, PyTorchJobController()) as why:
        yield why


@contextlib.contextmanager
def running(lab: KubernetesLab, controller: LabController) -> Iterator[str]:
    """A controller of users' objects, as long as it can run; empty, or why it cannot."""
    why = controller.missing(lab.folder)
    if not why:
        controller.start(lab)
    yield why
    if not why:
        controller.stop(lab)


@pytest.fixture
async def harness(lab: KubernetesLab, kubeconfig: Path) -> AsyncIterator[KubernetesHarness]:
    """An empty cluster."""
    async with contextlib.aclosing(KubernetesHarness(lab, kubeconfig, f"test-{secrets.token_hex(4)}")) as made:
        await made.come_back()
        yield made


@pytest.fixture
def stage(harness: KubernetesHarness) -> ClusterFixture:
    """The harness, with the acts that most tests share."""
    return ClusterFixture(harness)

"""Options that several commands have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from steepest.app.settings import amounts
from steepest.app.settings.amounts import Quantity
from steepest.policies.names import PolicyName, ReactionName

F = TypeVar("F", bound=Callable[..., Any])

ARRAY_MOST = 1_000
"""Jobs of an array."""


def variable(text: str, option: str = "--env") -> tuple[str, str]:
    """The name and the value of K=V.

    Raises:
        UsageError: It is none.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{option} {text}: write it like SEED=7")
    return name, value


class OneOf(click.Choice[str]):
    """One of several words. Of another word, the error names the closest one, as click does for options and commands."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """The reason why a word is refused."""
        import difflib

        close = difflib.get_close_matches(str(value), self.choices, n=1)
        refusal = super().get_invalid_choice_message(value, ctx)
        return f"{refusal.rstrip('.')}; did you mean {close[0]!r}?" if close else refusal


class FolderPath(click.Path):
    """A folder. An empty value, of a variable that is not set, is none: it would be the current folder."""

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if value == "":
            self.fail("it is empty; name a folder", param, ctx)
        return super().convert(value, param, ctx)


def state_option(command: F) -> F:
    """``--state DIR``: which installation is meant."""
    return click.option(
        "--state",
        type=FolderPath(),
        help="Use this state folder (.steepest); also STEEPEST_STATE_DIR.",
    )(command)


def config_option(command: F) -> F:
    """``--config FILE``: the settings' file."""
    return click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Read settings from this TOML file.",
    )(command)


def installation_options(command: Callable[..., None]) -> Callable[..., None]:
    """``--state``, ``--kafka``, ``--config`` and ``--pool``: what is meant, given to the command as ``settings``."""

    @functools.wraps(command)
    def wrapped(
        *args: Any, state: Path | None, kafka: str | None, config: Path | None, pool: str | None, **options: Any
    ) -> None:
        from steepest.app.settings.reading import read_settings

        given = {"state_dir": state, "kafka.bootstrap": kafka, "pool": pool}
        settings = read_settings(given, config)
        if not (settings.folder.exists or settings.installation_file) and (above := _folder_above(settings.state_dir)):
            settings = read_settings({**given, "state_dir": above}, config)
        command(*args, settings=settings, **options)

    named = click.option(
        "--kafka", metavar="HOST:PORT", help="Use the log on this Kafka cluster; default: where `up` put it."
    )
    pooled = click.option(
        "--pool", metavar="NAME", help="Use this pool; default: the first one, or all if the command says so."
    )
    return state_option(named(config_option(pooled(wrapped))))


def _folder_above(state: str) -> Path | None:
    """The nearest state folder of that name in a folder above this one, as git finds its own."""
    from steepest.app.state_folder import StateFolder

    above = [] if Path(state).is_absolute() else [folder / state for folder in Path.cwd().parents]
    return next((folder for folder in above if StateFolder(folder).exists), None)


def remote_options(command: Callable[..., None]) -> Callable[..., None]:
    """Like :func:`installation_options`, and ``--server``: ask a gateway instead."""

    @functools.wraps(command)
    def wrapped(*args: Any, settings: Any, server: str | None, **options: Any) -> None:
        if server is not None:
            import msgspec

            named = server if "://" in server or server.startswith("kube:") else f"http://{server}"
            client = msgspec.structs.replace(settings.client, server=named)
            settings = msgspec.structs.replace(settings, client=client)
        command(*args, settings=settings, **options)

    option = click.option(
        "--server",
        metavar="URL",
        help="Ask this gateway (`up --gateway`), or kube:[CONTEXT][/NAMESPACE], that of a kube context.",
    )
    return option(installation_options(wrapped))


def policy_option(default: str | None) -> Callable[[F], F]:
    """``--policy NAME``: the policy that schedules after the first placement."""
    return click.option(
        "--policy",
        type=OneOf(get_args(PolicyName)),
        default=default,
        show_default=default is not None,
        help="Choose the policy that moves jobs, limits their CPU, or suspends them.",
    )


KINDS = ("JobSet", "TrainJob", "PyTorchJob")


def json_option(command: F) -> F:
    """``--json``: for programs."""
    return click.option("--json/--no-json", "as_json", default=False, help="Print JSON and nothing else.")(command)


class Amount(click.ParamType[int]):
    """A number with a unit, as a whole number of the smallest unit."""

    def __init__(self, quantity: Quantity) -> None:
        self.name = quantity.name
        self._quantity = quantity

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of smallest units."""
        if isinstance(value, int):
            return value
        try:
            return self._quantity.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


CPU = Amount(amounts.CPU)
"""CPU in millicores."""

MEMORY = Amount(amounts.MEMORY)
"""Memory in MiB."""

REACTIONS = get_args(ReactionName)
"""What may be done about a finding."""

GPUS = Amount(amounts.GPUS)
"""GPUs in thousandths."""

SPAN = Amount(amounts.SPAN)
"""A span of time in milliseconds."""


class NodeType(click.ParamType[str]):
    """``NAME=CPU[:MEMORY][:gpus=N]``: an emulated node, in words that :func:`steepest.app.settings.amounts.node` reads."""

    name = "name=cpu[:memory][:gpus=n]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The words, which describe a node."""
        try:
            amounts.node(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)

"""Reads the settings, once, from everything that may set one.

In the order of rising precedence: the default, what the state folder remembers of its log (``kafka.json``), a TOML file, the
environment (``STEEPEST_…``), the command line's flags. It owns what each source may say and how an error names its source.
It is the only reader of ``STEEPEST_…`` variables in the library.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from steepest.app.settings.rows import PREFIX, Setting, rows, sections, type_in_words
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import StateFolder
from steepest.errors import InputError
from steepest.log.kafka.kafka_settings import AUTO

OTHERS = {
    **dict.fromkeys(
        (
            "STEEPEST_JOB",
            "STEEPEST_REPLICA",
            "STEEPEST_INCARNATION",
            "STEEPEST_CONTROL",
            "STEEPEST_CHECKPOINTS",
            "STEEPEST_RESTORE",
            "STEEPEST_MQTT_OUTBOX",
        ),
        "training scripts read it",
    ),
    **dict.fromkeys(
        (
            "STEEPEST_CRIU_HOME",
            "STEEPEST_DOCKER_HOME",
            "STEEPEST_KUBERNETES_HOME",
            "STEEPEST_DATA",
            "STEEPEST_REQUIRE_COMPONENTS",
        ),
        "tests and their labs do",
    ),
}
"""Variables that begin like settings and are none."""

DEFAULT = "default"


class Given(msgspec.Struct, frozen=True):
    """A value that a source gives.

    Attributes:
        origin: The source, for people: a file, a variable or a flag.
    """

    value: Any
    origin: str


class Loaded(msgspec.Struct, frozen=True):
    """The settings in force.

    Attributes:
        origins: Where each of them comes from, by path.
    """

    settings: Settings
    origins: Mapping[str, str]


def read_settings(
    flags: Mapping[str, object] | None = None, config: Path | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """The settings in force: see :func:`load`."""
    return load(flags, config, environ).settings


def load(
    flags: Mapping[str, object] | None = None, config: Path | None = None, environ: Mapping[str, str] | None = None
) -> Loaded:
    """The settings in force, and where they come from.

    Args:
        flags: What the command line says, by path; None is not said.
        config: A TOML file.
        environ: Variables; None: this process's.

    Raises:
        InputError: A source cannot be read, or says something wrong or unknown; the message names it.
        RecordingError: What the state folder remembers is damaged.
    """
    given: dict[str, Given] = {}
    if config is not None:
        given |= _from_file(config)
    given |= _from_environment(os.environ if environ is None else environ)
    given |= _from_flags(flags or {})
    if "kafka.bootstrap" not in given:
        given = _remembered(_tree(given).folder, given)
    if "installation_file" in given and given.get("kafka.bootstrap", Given(AUTO, DEFAULT)).value == AUTO:
        described = given["installation_file"].value
        raise InputError(
            f"{described} describes the installation, so its log is on a Kafka cluster, and none is named",
            hint="set STEEPEST_KAFKA",
        )
    return Loaded(_tree(given), {row.path: given[row.path].origin if row.path in given else DEFAULT for row in rows()})


def _from_file(path: Path) -> Mapping[str, Given]:
    import tomllib  # noqa: PLC0415 - most calls name no file, and each start would pay for it

    from steepest.secret_files import refuse_shared  # noqa: PLC0415 - likewise

    try:
        with path.open() as file:
            content, status = tomllib.loads(file.read()), os.fstat(file.fileno())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: {why}", hint="name a TOML file; docs/settings.md has an example") from error
    known = {row.path: row for row in rows()}
    values = dict(_flat(path, content))
    if unknown := sorted(values.keys() - known.keys()):
        raise InputError(f"{path}: there is no setting {unknown[0]}", hint=_closest(unknown[0], known))
    if secret := next((name for name in sorted(values) if known[name].secret and values[name]), None):
        refuse_shared(path, status, f"has {secret}")
    return {
        name: Given(_checked(known[name], value, f"{path}: {name}", strict=True), str(path))
        for name, value in values.items()
    }


def _flat(path: Path, content: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{name}", one) for name, one in value.items())
        elif key in sections():
            raise InputError(f"{path}: {key} is a table", hint=f"write [{key}] and its settings below it")
        else:
            yield key, value


def _from_environment(environ: Mapping[str, str]) -> Mapping[str, Given]:
    """The values of variables; an empty one counts as missing."""
    known = {row.variable: row for row in rows()}
    ours = {name: value for name, value in environ.items() if name.startswith(PREFIX) and name not in OTHERS}
    if unknown := sorted(ours.keys() - known.keys()):
        raise InputError(f"there is no setting {unknown[0]}", hint=_closest(unknown[0], known))
    return {
        known[name].path: Given(_checked(known[name], value, name, strict=False), name)
        for name, value in ours.items()
        if value
    }


def _from_flags(flags: Mapping[str, object]) -> Mapping[str, Given]:
    known = {row.path: row for row in rows()}
    return {
        path: Given(_checked(known[path], _plain(value), known[path].flag, strict=False), known[path].flag)
        for path, value in flags.items()
        if value is not None and value != ()
    }


def _plain(value: object) -> object:
    """The value of a flag as click gives it, as settings have it."""
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return str(value) if isinstance(value, Path) else value


def _remembered(folder: StateFolder, given: Mapping[str, Given]) -> dict[str, Given]:
    """With the log that the folder had the last time, where no other one is named."""
    place = folder.kafka_place()
    if place is None:
        return dict(given)
    origin = str(folder.kafka_file)
    bootstrap = AUTO if place.own else place.bootstrap
    return {"kafka.prefix": Given(place.prefix, origin), **given, "kafka.bootstrap": Given(bootstrap, origin)}


def _checked(row: Setting, value: object, where: str, *, strict: bool) -> Any:
    if row.is_list and isinstance(value, str) and not strict:
        value = [part for part in value.split(",") if part]
    try:
        converted = msgspec.convert(value, row.type, strict=strict)
        for one in converted if row.check and row.is_list else ():
            row.check(one)
        if row.check and converted and not row.is_list:
            row.check(converted)
    except msgspec.ValidationError as error:
        wrong = "its value" if row.secret else repr(text_of(value))
        raise InputError(f"{where}: {wrong} is wrong", hint=f"write {type_in_words(row.type)}") from error
    except ValueError as error:
        raise InputError(f"{where}: {error}", hint="see docs/settings.md") from error
    return converted


def text_of(value: object) -> object:
    """A value as its source has it."""
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _closest(name: str, known: Iterable[str]) -> str:
    import difflib  # noqa: PLC0415 - for errors alone

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else "see docs/settings.md for those that there are"


def _tree(given: Mapping[str, Given]) -> Settings:
    """The tree with these values, and defaults elsewhere."""
    top: dict[str, Any] = {}
    below: dict[str, dict[str, Any]] = {}
    for path, one in given.items():
        section, _, name = path.rpartition(".")
        (below.setdefault(section, {}) if section else top)[name] = one.value
    default = Settings()
    return Settings(
        **top, **{name: msgspec.structs.replace(getattr(default, name), **values) for name, values in below.items()}
    )

"""Settings are read once, from sources that precede each other, and what is wrong is refused by the name of its source."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steepest.app.compose import composed
from steepest.app.settings.amounts import queue_limits, user_limits
from steepest.app.settings.reading import OTHERS, load, read_settings
from steepest.app.settings.rows import HIDDEN, Setting, as_environment, rows
from steepest.app.settings.tables import example
from steepest.app.settings.tree import Settings
from steepest.app.state_folder import KafkaPlace, StateFolder
from steepest.cli.commands.up import flags_of, up
from steepest.errors import InputError
from steepest.events.parameters import QueueLimits
from steepest.log.kafka.kafka_settings import KafkaSettings
from steepest.policies.names import PolicyName


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Of settings."""
    return tmp_path / "steepest.toml"


def test_each_source_precedes_those_before_it(file: Path, tmp_path: Path) -> None:
    """Default, what the folder remembers, file, environment, flag; and each setting says where it comes from."""
    folder = StateFolder(tmp_path)
    folder.remember_kafka(KafkaPlace("there:9092", "x-"))
    file.touch(0o600)
    file.write_text('[kafka]\nusername = "file"\npassword = "file"\n[parameters]\nalpha = 1\ninterval_ms = 500\n')
    variables = {"STEEPEST_KAFKA_PASSWORD": "variable", "STEEPEST_PARAMETERS_INTERVAL_MS": "700"}
    flags = {"state_dir": tmp_path, "parameters.interval_ms": 900, "parameters.policy": None, "cluster.nodes": ()}

    found = load(flags, file, variables)

    kafka, parameters = found.settings.kafka, found.settings.parameters
    assert (kafka.bootstrap, kafka.prefix, kafka.username, kafka.password) == ("there:9092", "x-", "file", "variable")
    assert (parameters.alpha, parameters.interval_ms, parameters.policy) == (1.0, 900, None)
    assert {path: origin for path, origin in found.origins.items() if origin != "default"} == {
        "state_dir": "--state",
        "kafka.bootstrap": str(tmp_path / "kafka.json"),
        "kafka.prefix": str(tmp_path / "kafka.json"),
        "kafka.username": str(file),
        "kafka.password": "STEEPEST_KAFKA_PASSWORD",
        "parameters.alpha": str(file),
        "parameters.interval_ms": "--interval",
    }


def test_a_log_that_is_named_precedes_the_one_that_is_remembered(tmp_path: Path) -> None:
    """With its prefix; a broker of the folder's own is remembered as such."""
    folder = StateFolder(tmp_path)
    folder.remember_kafka(KafkaPlace("there:9092", "x-", own=True))
    state = {"state_dir": tmp_path}

    remembered = read_settings(state, environ={}).kafka
    named = read_settings(state, environ={"STEEPEST_KAFKA": "here:1"}).kafka
    other = read_settings(state, environ={"STEEPEST_KAFKA": "", "STEEPEST_KAFKA_PREFIX": "y-"}).kafka

    assert (remembered.bootstrap, remembered.prefix) == ("auto", "x-")
    assert (named.bootstrap, named.prefix) == ("here:1", "")
    assert (other.bootstrap, other.prefix) == ("auto", "y-")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STEEPEST_KAFKA", "no-port"),
        ("STEEPEST_KAFKA", "host:1,:2"),
        ("STEEPEST_KAFKA_SECURITY", "TLS"),
        ("STEEPEST_KAFKA_SECURTY", "SSL"),
        ("STEEPEST_KAFKA_PREFIX", "a b"),
        ("STEEPEST_KAFKA_SASL_MECHANISM", "GSSAPI"),
        ("STEEPEST_MQTT", "broker"),
        ("STEEPEST_MQTT", "broker:0"),
        ("STEEPEST_MQTT", "broker:99999"),
        ("STEEPEST_MQTT", "mqtt://broker:1883"),
        ("STEEPEST_MQTT_TSL", "true"),
        ("STEEPEST_MQTT_TLS", "maybe"),
        ("STEEPEST_MQTT_PREFIX", "a/#"),
        ("STEEPEST_MQTT_PREFIX", "/a"),
        ("STEEPEST_MQTT_DEVICE", "Edge 1"),
        ("STEEPEST_METRICS_PORT", "70000"),
        ("STEEPEST_STOP_AT_EOF", "2"),
        ("STEEPEST_CLUSTER_NODES", "n1=1,n2"),
        ("STEEPEST_SERVICES_SCALE", "categorizer=0"),
        ("STEEPEST_STATEDIR", "x"),
    ],
)
def test_a_wrong_variable_is_refused_by_name(name: str, value: str) -> None:
    """A variable that is no setting, or has a value that it cannot have, is refused, and the message names it."""
    with pytest.raises(InputError) as refused:
        read_settings(environ={name: value})

    assert name in str(refused.value)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x = [", ""),
        ("kafka = 'x'", "kafka is a table"),
        ("kafka_prefix = 'x'", "there is no setting kafka_prefix"),
        ("[kafka]\nsecurty = 'SSL'", "there is no setting kafka.securty"),
        ("[kafka.more]\nx = 1", "there is no setting kafka.more"),
        ("[kafka]\nbootstrap = 9092", "kafka.bootstrap: 9092 is wrong"),
        ("[metrics]\nport = '9400'", "metrics.port: '9400' is wrong"),
        ("[metrics]\nport = true", "metrics.port: True is wrong"),
        ("[parameters]\nalpha = -1", "parameters.alpha: -1 is wrong"),
        ("[parameters]\npolicy = 'best'", "parameters.policy: 'best' is wrong"),
        ("[cluster]\nnodes = 'n1=1'", "cluster.nodes: 'n1=1' is wrong"),
        ("[cluster]\nnodes = ['n1=much']", "cluster.nodes: 'much' is no amount of cpu"),
    ],
)
def test_a_wrong_file_is_refused_by_its_name_and_key(text: str, names: str, file: Path) -> None:
    """Unknown keys, wrong types and values out of range name the file and the path of the key."""
    file.write_text(text)

    with pytest.raises(InputError) as refused:
        load(config=file, environ={})

    assert str(refused.value).startswith(f"{file}: {names}")


def test_a_file_that_is_not_there_is_refused(file: Path) -> None:
    """Nothing else takes its place."""
    with pytest.raises(InputError, match="No such file"):
        load(config=file, environ={})


def test_a_wrong_flag_is_refused_by_its_name() -> None:
    """What click cannot know to be wrong."""
    with pytest.raises(InputError, match="--kafka: 'nope' is wrong"):
        read_settings({"kafka.bootstrap": "nope"}, environ={})


def test_a_secret_is_not_shown(file: Path) -> None:
    """Neither in an error nor in a representation nor where the settings in force are shown."""
    file.write_text("[kafka]\npassword = 12345\n")
    with pytest.raises(InputError) as refused:
        load(config=file, environ={})
    found = Settings(kafka=KafkaSettings(bootstrap="h:1", password="s3cret"))  # noqa: S106

    assert "12345" not in f"{refused.value} {refused.value.hint}"
    assert "s3cret" not in repr(found)
    assert {row.path for row in rows() if row.secret} == {"client.token", "kafka.password", "mqtt.password"}
    assert all(row.shown(row.of(found)) in {HIDDEN, ""} for row in rows() if row.secret)


VALUES = {
    "pool": st.just("default"),
    "kafka.bootstrap": st.sampled_from(["h:1", "a:1,b:2", "auto"]),
    "kafka.prefix": st.sampled_from(["", "x-"]),
    "kafka.password": st.text(st.characters(exclude_characters="\0", codec="ascii"), min_size=1),
    "mqtt.broker": st.sampled_from(["h:1", "[::1]:8883"]),
    "metrics.port": st.integers(0, 65535),
    "stop_at_eof": st.booleans(),
    "cluster.nodes": st.lists(st.sampled_from(["n1=0.5", "n2=1:2Gi"])).map(tuple),
    "cluster.soft_limits": st.booleans(),
    "cluster.host_network": st.booleans(),
    "cluster.system_checkpoints": st.booleans(),
    "cluster.link_mbit": st.integers(1, 10**6),
    "parameters.alpha": st.floats(1e-9, 1e9),
    "parameters.interval_ms": st.integers(1, 10**12),
    "parameters.policy": st.sampled_from(get_args(PolicyName)),
    "services.scale": st.lists(st.sampled_from(["placer=2", "categorizer=3"])).map(tuple),
}


@given(st.fixed_dictionaries({}, optional=VALUES))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_settings_reach_another_process_as_they_are(flags: dict[str, object]) -> None:
    """Any settings written to an environment are read back unchanged."""
    found = read_settings(flags, environ={})

    assert read_settings(environ=as_environment(found)) == found


def test_the_example_file_is_read_and_changes_nothing(file: Path) -> None:
    """As it is, and with each setting that it mentions; so it has all of them."""
    file.write_text(example())
    assert load(config=file, environ={}).settings == Settings()

    lines = [line for line in example().splitlines() if not line.startswith("# ")]
    file.write_text("\n".join(line.removeprefix("#") for line in lines))
    found = load(config=file, environ={})

    assert set(found.origins.values()) == {str(file)}


def test_variables_of_training_scripts_are_no_settings() -> None:
    """A command that a job calls has them in its environment."""
    assert read_settings(environ=dict.fromkeys(OTHERS, "x")) == Settings()


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.path)
def test_every_setting_has_a_name_a_meaning_and_a_place(row: Setting) -> None:
    """A variable of its own, a sentence, and, where it has a flag, an option of `up` that sets it."""
    options = {name for parameter in up.params for name in parameter.opts}

    assert [other.path for other in rows() if other.variable == row.variable] == [row.path]
    assert row.meaning.endswith(".")
    assert not row.flag or row.flag in options


def test_every_option_of_up_is_a_setting() -> None:
    """Every option of `up` but the file's name and help is in the tree under the path that it is read by."""
    named = {parameter.name: None for parameter in up.params if parameter.name not in {"config", "gateway", "metrics"}}
    paths = set(flags_of(metrics=None, **named))  # type: ignore[arg-type]

    assert paths == {row.path for row in rows() if row.flag}
    assert {name for parameter in up.params for name in parameter.opts} - {"--config"} == {
        row.flag for row in rows() if row.flag
    }


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("paper:replicas=8", QueueLimits(queue="paper", replicas=8)),
        ("paper:cpu=0.5:gpus=1.5", QueueLimits(queue="paper", cpu_m=500, gpu_m=1500)),
        ("paper:replicas=0", QueueLimits(queue="paper", replicas=0)),
    ],
)
def test_limits_of_a_queue(text: str, limits: QueueLimits) -> None:
    """Amounts as people write them."""
    assert queue_limits(text) == limits


def test_limits_of_a_user() -> None:
    """Also its unfinished jobs and its memory; those of each user have a star for a name."""
    assert user_limits("Alice.B@lab:jobs=100:memory=2Gi") == QueueLimits(user="Alice.B@lab", jobs=100, memory_mib=2048)
    assert user_limits("*:gpus=1") == QueueLimits(user="*", gpu_m=1000)


@pytest.mark.parametrize(
    "text", ["paper", "paper:", "A B:cpu=1", ":cpu=1", "*:cpu=1", "paper:memory=x", "paper:cpu=-1", "paper:cpu=1:cpu=x"]
)
def test_what_is_no_limit_is_refused(text: str) -> None:
    """With its setting, and how one is written."""
    with pytest.raises(InputError, match=r"queue_limits|--queue-limit"):
        load({"parameters.queue_limits": (text,)}, environ={})
    if not text.startswith("*"):
        with pytest.raises(InputError, match=r"user_limits|--user-limit"):
            load({"parameters.user_limits": (text,)}, environ={})


@pytest.mark.parametrize(
    ("kafka", "is_open"),
    [
        (KafkaSettings(), False),
        (KafkaSettings(bootstrap="auto"), False),
        (KafkaSettings(bootstrap="127.0.0.1:9092,localhost:9093"), False),
        (KafkaSettings(bootstrap="localhost:9092,kafka:9092"), True),
        (KafkaSettings(bootstrap="localhost.example:9092"), True),
        (KafkaSettings(bootstrap="kafka:9092", security="SASL_SSL"), False),
    ],
)
async def test_a_log_that_everybody_may_write_is_named_when_a_service_starts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kafka: KafkaSettings, *, is_open: bool
) -> None:
    """On other machines, without a proof of who asks. The state folder is none here, so nothing is connected to."""
    with pytest.raises(InputError, match="no state folder"):
        async with composed(Settings(state_dir=str(tmp_path), kafka=kafka), ()):
            pass

    assert ("Kafka asks for no proof of identity" in "".join(capfd.readouterr())) == is_open

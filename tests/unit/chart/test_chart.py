"""The chart: what is rendered is what the services need, closed to what they do not need, and wrong values are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from tests.unit.chart.chart_harness import (
    ASKED,
    CHART,
    TEAMS,
    TRIAL,
    containers,
    helm,
    of_kind,
    pods,
    rendered,
    variables,
)

from steepest.app.installed_services import installed_services
from steepest.app.settings.mounted_installation import read_installation
from steepest.app.settings.rows import rows
from steepest.cluster.kubernetes.agent.node_sources import GROUPS, LOGS
from steepest.events.common import Resources
from steepest.policies.names import PlacementName, PolicyName, QueuePolicyName

ROOT = CHART.parents[1]
ACTING = {"log-collector", "migrator", "resizer"}
ALL_ON: dict[str, Any] = {
    **TRIAL,
    "parameters": {"policy": "specon+flowcon", "interval_ms": 1000, "queue_limits": ["a=1", "b=2"]},
    "metrics": {name: {"enabled": True} for name in ("serviceMonitor", "rules", "dashboards")},
    "services": {"mqtt-bridge": {"replicas": 1}, "categorizer": {"autoscaling": {"enabled": True}, "replicas": 2}},
    "autoscaling": {"prometheus": "http://prometheus:9090"},
    "notify": {"targetsSecret": "targets", "page": "https://steepest.example"},
}
EXTERNAL: dict[str, Any] = {
    "jobs": {"volumeClaim": "shared"},
    "kafka": {
        "bootstrap": "a:9093,b:9094",
        "security": "SASL_SSL",
        "loginSecret": "login",
        "caSecret": "authority",
    },
    "services": {"placer": {"kafkaLoginSecret": "placer-login"}},
}


RECORDED: dict[str, Any] = {**TRIAL, "record": {"enabled": True}}
AGENTS: dict[str, Any] = {**TRIAL, "nodeAgent": {"enabled": True}}
SCHEDULED: dict[str, Any] = {**EXTERNAL, "record": {"enabled": True, "schedule": "*/10 * * * *", "volumeClaim": "kept"}}


@pytest.mark.parametrize(
    "values",
    [TRIAL, ALL_ON, EXTERNAL, RECORDED, SCHEDULED, ASKED, AGENTS, TEAMS],
    ids=["trial", "all on", "external", "recorded", "recorded on a schedule", "a webhook", "agents", "namespaces"],
)
def test_helm_finds_no_fault(values: dict[str, Any]) -> None:
    """`helm lint --strict` passes, and no two objects have one name."""
    done = helm("lint", "--strict", str(CHART), values=values)
    names = [(each["kind"], *map(each["metadata"].get, ("namespace", "name"))) for each in rendered(values)]

    assert not done.returncode, done.stdout
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kafka": {"broker": {"enabled": True}}}, "volumeClaim"),
        ({"jobs": {"volumeClaim": "shared"}}, "kafka.bootstrap"),
        ({**TRIAL, "service": {}}, "service"),
        ({**TRIAL, "parameters": {"policy": "nonsense"}}, "parameters"),
        ({**TRIAL, "services": {"placers": {}}}, "placers"),
        ({**TRIAL, "services": {"placer": {"replicas": -1}}}, "replicas"),
        ({**TRIAL, "pools": []}, "pools"),
        ({**TRIAL, "record": {"enabled": True, "folder": "../jobs"}}, "record"),
        ({**EXTERNAL, "kafka": {"bootstrap": "a:9092", "security": "SASL_SSL"}}, "loginSecret"),
        ({**AGENTS, "jobs": {"volumeClaim": "shared", "storage": "http://s/"}}, "jobs.storage"),
        ({**AGENTS, "services": {"log-collector": {"autoscaling": {"enabled": True}}}}, "autoscaling"),
        ({**AGENTS, "nodeAgent": {"enabled": True, "podLogs": "logs"}}, "podLogs"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, Any], message: str) -> None:
    """Nothing is rendered, and the message names the value."""
    done = helm("template", "demo", str(CHART), values=values)

    assert done.returncode
    assert message in done.stderr


NUMBERED: dict[str, Any] = {
    "jobs": {"volumeClaim": "1", "systemCheckpoints": True},
    "kafka": {
        "bootstrap": "a:9093",
        "security": "SASL_SSL",
        "loginSecret": "2",
        "caSecret": "3",
        "certificateSecret": "4",
    },
    "image": {"pullSecrets": ["5"]},
    "gateway": {"tokensSecret": "6"},
    "notify": {"targetsSecret": "7"},
    "record": {"enabled": True},
    "nodeAgent": {"enabled": True},
    "optIn": {"enabled": True, "ownNamespace": True, "namespaces": ["8"]},
    "services": {"placer": {"secretEnv": {"A": {"name": "9", "key": "10"}}}},
}
STORED: dict[str, Any] = {
    **NUMBERED,
    "kafka": {"broker": {"enabled": True, "storageClass": "11"}},
    "optIn": {**NUMBERED["optIn"], "by": "webhook", "namespaces": []},
}
TEXTS = {"name", "namespace", "claimName", "secretName", "storageClassName", "serviceAccountName", "key"}


def test_a_release_with_a_dot_has_names_without() -> None:
    """Helm allows one in a release's name, and Kubernetes refuses it in a service's."""
    done = helm("template", "team.a", str(CHART), values=ALL_ON)

    assert not done.returncode, done.stderr
    services = [
        each["metadata"]["name"] for each in yaml.safe_load_all(done.stdout) if each and each["kind"] == "Service"
    ]
    assert services
    assert [name for name in services if "." in name] == []


@pytest.mark.parametrize("values", [NUMBERED, STORED], ids=["external", "a broker and a webhook"])
def test_a_name_of_digits_stays_a_text(values: dict[str, Any]) -> None:
    """Kubernetes allows it for a release, a namespace, a claim and a Secret, and refuses a number in their place."""
    done = helm("template", "2024", str(CHART), "--namespace", "2025", "--kube-version", "1.36", values=values)
    assert not done.returncode, done.stderr

    def numbers(part: Any, above: str = "") -> list[str]:
        if isinstance(part, list):
            return [each for one in part for each in numbers(one, above)]
        if not isinstance(part, dict):
            return []
        is_wrong = above.casefold().endswith(("labels", "annotations"))
        found = [f"{above}.{key}: {value}" for key, value in part.items() if isinstance(value, int)]
        named = [each for each in found if is_wrong or each.split(":")[0].rpartition(".")[2] in TEXTS]
        return named + [each for key, value in part.items() for each in numbers(value, key)]

    assert numbers(list(yaml.safe_load_all(done.stdout))) == []


def test_the_names_that_parameters_may_have_are_those_of_the_settings() -> None:
    """A name that no setting knows is refused where it is written, and not by a pod that fails."""
    known = json.loads((CHART / "values.schema.json").read_text())["properties"]["parameters"]["properties"]
    names = {"policy": PolicyName, "placement": PlacementName, "queueing": QueuePolicyName}
    assert {name: tuple(one["enum"]) for name, one in known.items()} == {name: get_args(names[name]) for name in names}


def test_every_service_is_installed() -> None:
    """A service that is added to the system is in the chart; the bridge for devices only on request."""
    everything = {*installed_services(), "gateway"}

    assert set(of_kind("Deployment")) == everything - {"mqtt-bridge"}
    assert set(of_kind("Deployment", ALL_ON)) == everything


def test_every_part_is_closed() -> None:
    """No root, no capabilities, a read-only file system and the runtime's seccomp profile, in every container."""
    for name, pod in (one for values in (ALL_ON, RECORDED, SCHEDULED, ASKED, AGENTS) for one in pods(values).items()):
        assert pod["securityContext"]["runAsNonRoot"], name
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not pod.get("enableServiceLinks", True), name
        for container in containers(pod):
            context = container["securityContext"]
            assert (context["readOnlyRootFilesystem"], context["allowPrivilegeEscalation"]) == (True, False), name
            assert context["capabilities"] == {"drop": ["ALL"]}, name
            assert container["resources"]["limits"]["memory"], name


def test_only_who_acts_on_jobs_has_a_token_and_the_volume() -> None:
    """All others have no rights in the cluster, no token and no volume of the jobs; the gateway reads what they print."""
    found = pods(ALL_ON)
    tokens = {name for name, pod in found.items() if pod["automountServiceAccountToken"]}
    volumes = {name for name, pod in found.items() if any("persistentVolumeClaim" in v for v in pod["volumes"])}
    (gateway,) = volumes - tokens
    (served,) = found[gateway]["containers"]
    read = {
        each["mountPath"]: (each["subPath"], each["readOnly"])
        for each in served["volumeMounts"]
        if each["name"] == "jobs"
    }

    assert tokens == {f"Deployment/demo-steepest-{part}" for part in ACTING}
    assert gateway == "Deployment/demo-steepest-gateway"
    assert read == {f"/var/lib/steepest/{name}": (f"demo-steepest/{name}", True) for name in ("cluster", "pools")}
    assert set(of_kind("Role")) - {"users"} == set(of_kind("RoleBinding")) == set(of_kind("ClusterRole")) == ACTING


def test_every_variable_is_a_setting() -> None:
    """A service refuses a variable that it does not know."""
    known = {row.variable for row in rows()}
    for values in (ALL_ON, EXTERNAL, RECORDED, SCHEDULED, AGENTS):
        for name, pod in pods(values).items():
            ours = {v for container in containers(pod) for v in variables(container) if v.startswith("STEEPEST_")}
            assert ours <= known, name


def test_services_read_the_installation(tmp_path: Path) -> None:
    """The file in the ConfigMap is one that services accept, with nodes by name or by labels."""
    pools = [
        {"name": "first", "selector": "gpu=yes"},
        {"name": "second", "nodes": ["n1=1.5:4Gi"], "queues": ["images", "text"]},
    ]
    file = tmp_path / "installation.toml"
    values = {
        **TRIAL,
        "pools": pools,
        "jobs": {
            **TRIAL["jobs"],
            "storage": "http://storage:8080/data/",
            "checkpointsGiB": 50,
            "systemCheckpoints": True,
        },
    }
    file.write_text(of_kind("ConfigMap", values)["installation"]["data"]["installation.toml"])
    found = read_installation(file)

    assert not found.has_agents
    assert found.ended.checkpoints_gib == 50
    assert found.system_checkpoints
    assert found.kubernetes("second") == "kubernetes://training/shared:/var/lib/steepest"
    assert found.selector("first") == "gpu=yes"
    assert found.nodes_of("second")[0].capacity == Resources(cpu_m=1500, memory_mib=4096)
    assert found.pool_of_queue("text") == "second"
    assert found.storage == "http://storage:8080/data"
    file.write_text(of_kind("ConfigMap", AGENTS)["installation"]["data"]["installation.toml"])
    assert read_installation(file).has_agents
    assert not read_installation(file).system_checkpoints


def test_an_agent_runs_on_every_node_in_place_of_the_log_collector() -> None:
    """Also on a node with taints, and knows which one it is; no part of it is scaled or counted."""
    agent = of_kind("DaemonSet", AGENTS)["log-collector"]
    pod = agent["spec"]["template"]["spec"]
    env = {each["name"]: each for each in pod["containers"][0]["env"]}

    assert set(of_kind("Deployment")) - set(of_kind("Deployment", AGENTS)) == {"log-collector"}
    assert "log-collector" not in of_kind("PodDisruptionBudget", AGENTS)
    assert "replicas" not in agent["spec"]
    assert "topologySpreadConstraints" not in pod
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert agent["spec"]["template"]["metadata"]["labels"]["steepest.dev/api-server"] == "true"
    assert env["STEEPEST_AGENT_NODE"]["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert not of_kind("DaemonSet")
    assert not of_kind("PersistentVolume")


def test_an_agent_reads_two_folders_of_its_node_and_writes_none() -> None:
    """As a user without rights who is in root's group; the volumes are bound to this release's claims alone."""
    pod = of_kind("DaemonSet", AGENTS)["log-collector"]["spec"]["template"]["spec"]
    claims = {each["name"]: each["persistentVolumeClaim"] for each in pod["volumes"] if "persistentVolumeClaim" in each}
    mounts = {each["name"]: each for each in pod["containers"][0]["volumeMounts"]}
    volumes = of_kind("PersistentVolume", AGENTS)

    assert not any("hostPath" in each for each in pod["volumes"])
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["supplementalGroups"]) == (10001, [0])
    for name, path in (("pod-logs", "/var/log/pods"), ("cgroups", "/sys/fs/cgroup")):
        assert claims[name] == {"claimName": f"demo-steepest-{name}", "readOnly": True}
        assert (mounts[name]["readOnly"], mounts[name]["recursiveReadOnly"]) == (True, "IfPossible")
        assert volumes[name]["spec"]["hostPath"]["path"] == path
        assert volumes[name]["spec"]["claimRef"] == {"namespace": "training", "name": f"demo-steepest-{name}"}
    assert (mounts["pod-logs"]["mountPath"], mounts["cgroups"]["mountPath"]) == (str(LOGS), str(GROUPS))


def test_an_agent_may_be_left_without_the_control_groups_or_find_its_logs_by_its_name() -> None:
    """Use is then unknown; and nodes that share a machine have a folder each."""
    blind = {**AGENTS, "jobs": {"volumeClaim": "shared", "usage": False}}
    named = {**AGENTS, "nodeAgent": {"enabled": True, "podLogs": "/srv/$(NODE)/logs"}}
    pod = of_kind("DaemonSet", named)["log-collector"]["spec"]["template"]["spec"]
    (mount,) = (each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "pod-logs")

    assert set(of_kind("PersistentVolume", blind)) == {"pod-logs"}
    assert of_kind("PersistentVolume", named)["pod-logs"]["spec"]["hostPath"]["path"] == "/srv"
    assert mount["subPathExpr"] == "$(STEEPEST_AGENT_NODE)/logs"


def test_with_agents_no_one_reads_logs_or_kubelets_through_the_api_server() -> None:
    """The services that act on jobs have no right to read logs either."""
    rules = [
        rule
        for kind in ("Role", "ClusterRole")
        for name, each in of_kind(kind, AGENTS).items()
        if name != "users"
        for rule in each["rules"]
    ]
    asked = {resource for rule in rules for resource in rule["resources"]}

    assert not asked & {"pods/log", "nodes/proxy"}


def test_only_the_agents_pods_may_mount_the_files_of_a_node() -> None:
    """A policy of the API server refuses all others in the namespace."""
    policy = of_kind("ValidatingAdmissionPolicy", AGENTS)["node-files"]["spec"]
    binding = of_kind("ValidatingAdmissionPolicyBinding", AGENTS)["node-files"]["spec"]

    assert '["demo-steepest-cgroups","demo-steepest-pod-logs"]' in policy["matchConditions"][0]["expression"]
    assert 'o.name == "demo-steepest-log-collector"' in policy["validations"][0]["expression"]
    assert binding["policyName"] == "training-demo-steepest-node-files"
    assert binding["matchResources"]["namespaceSelector"] == {
        "matchLabels": {"kubernetes.io/metadata.name": "training"}
    }


def test_parameters_reach_the_job_that_applies_them() -> None:
    """A value of `parameters` is a variable; a list is written with commas."""
    (setup,) = (pod for name, pod in pods(ALL_ON).items() if name.startswith("Job/"))
    found = variables(setup["containers"][0])

    assert found["STEEPEST_PARAMETERS_POLICY"] == "specon+flowcon"
    assert found["STEEPEST_PARAMETERS_INTERVAL_MS"] == "1000"
    assert found["STEEPEST_PARAMETERS_QUEUE_LIMITS"] == "a=1,b=2"


def test_an_external_kafka_is_reached_as_it_asks() -> None:
    """TLS and SASL come from Secrets, and a service may have a login of its own; only its ports may be reached."""
    found = {name: variables(pod["containers"][0]) for name, pod in pods(EXTERNAL).items()}
    placer, categorizer = found["Deployment/demo-steepest-placer"], found["Deployment/demo-steepest-categorizer"]
    egress = of_kind("NetworkPolicy", EXTERNAL)["demo-steepest"]["spec"]["egress"]
    ports = [port["port"] for rule in egress for port in rule["ports"]]

    assert placer["STEEPEST_KAFKA"] == "a:9093,b:9094"
    assert placer["STEEPEST_KAFKA_SECURITY"] == "SASL_SSL"
    assert placer["STEEPEST_KAFKA_PASSWORD"] == ("placer-login", "password")
    assert categorizer["STEEPEST_KAFKA_PASSWORD"] == ("login", "password")
    assert placer["STEEPEST_KAFKA_CA_FILE"] == "/etc/steepest/kafka-ca/ca.crt"
    assert {9093, 9094} <= set(ports)
    assert "StatefulSet" not in {each["kind"] for each in rendered(EXTERNAL)}


def test_only_who_acts_on_jobs_reaches_the_api_server() -> None:
    """The policy that opens the API server's ports selects the pods with a token."""
    selected = of_kind("NetworkPolicy")["api-server"]["spec"]["podSelector"]["matchLabels"]
    labels = {name: each["spec"]["template"]["metadata"]["labels"] for name, each in of_kind("Deployment").items()}

    assert {name for name, own in labels.items() if selected.items() <= own.items()} == ACTING


def test_a_scaled_service_leaves_its_replicas_to_keda() -> None:
    """A ScaledObject and a number of replicas in the Deployment would fight."""
    scaled = of_kind("ScaledObject", ALL_ON)

    assert set(scaled) == {"categorizer"}
    assert scaled["categorizer"]["spec"]["minReplicaCount"] == 2
    assert "replicas" not in of_kind("Deployment", ALL_ON)["categorizer"]["spec"]


def test_rules_and_dashboards_are_those_of_the_project() -> None:
    """Nothing is copied by hand: the operator's rules and Grafana's dashboards are the committed files."""
    rules = of_kind("PrometheusRule", ALL_ON)["demo-steepest"]["spec"]
    boards = {name: data for each in of_kind("ConfigMap", ALL_ON).values() for name, data in each["data"].items()}
    committed = {file.name: file.read_text() for file in (ROOT / "deploy/monitoring/dashboards").glob("*.json")}

    assert rules == yaml.safe_load((ROOT / "deploy/monitoring/rules.yml").read_text())
    assert {name: boards[name] for name in committed} == committed
    assert not of_kind("PrometheusRule")


def test_a_recording_is_made_on_request_only() -> None:
    """By a Job for each revision, or a CronJob that never runs twice at a time; without rights, and on the claim named."""
    job, scheduled = of_kind("Job", RECORDED)["record-1"], of_kind("CronJob", SCHEDULED)["record"]
    pod, later = job["spec"]["template"]["spec"], scheduled["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    claims = [each["volumes"][-1]["persistentVolumeClaim"]["claimName"] for each in (pod, later)]

    assert set(of_kind("Job")) == {"setup-1"}
    assert not of_kind("CronJob")
    assert "record" not in of_kind("CronJob", RECORDED)
    assert set(of_kind("Job", SCHEDULED)) == {"setup-1"}
    assert pod["containers"][0]["command"] == [
        *("steepest", "record", "--out"),
        "/var/lib/recordings/demo-steepest-recording",
    ]
    assert claims == ["shared", "kept"]
    assert (pod["restartPolicy"], pod["automountServiceAccountToken"]) == ("OnFailure", False)
    assert (scheduled["spec"]["schedule"], scheduled["spec"]["concurrencyPolicy"]) == ("*/10 * * * *", "Forbid")
    assert variables(later["containers"][0])["STEEPEST_KAFKA_PASSWORD"] == ("login", "password")

"""The chart: what is rendered is what the services need, closed to what they do not need, and wrong values are refused."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.chart.chart_harness import CHART, TRIAL, containers, helm, of_kind, pods, rendered, variables

from steepest.admission.webhook import PATH
from steepest.app.installed_services import installed_services
from steepest.app.settings.mounted_installation import read_installation
from steepest.app.settings.rows import rows
from steepest.client import calls, kubernetes
from steepest.cluster.kubernetes.agent.node_sources import GROUPS, LOGS
from steepest.events.common import Resources

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
ASKED: dict[str, Any] = {**TRIAL, "optIn": {"enabled": True, "ownNamespace": True, "by": "webhook"}}
TEAMS: dict[str, Any] = {**TRIAL, "optIn": {"enabled": True, "ownNamespace": True, "namespaces": ["team-a", "team-b"]}}
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


def is_gate(each: Mapping[str, Any]) -> bool:
    """Whether an object is of the policies that concern users' objects."""
    return "Admission" in each["kind"] and "services.steepest.dev" not in each["metadata"]["name"]


def test_users_jobs_are_gated_on_request_only() -> None:
    """The policies hold in the release's namespace; they name its claim, its account and the folders of its pools."""
    pools = [{"name": "first"}, {"name": "second", "queues": ["images"]}]
    values = {**TRIAL, "optIn": {"enabled": True, "ownNamespace": True}, "pools": pools}
    policies = {each["kind"]: each for each in rendered(values) if is_gate(each)}
    text = json.dumps(policies)
    (folder,) = policies["MutatingAdmissionPolicy"]["spec"]["variables"]

    assert not [each for each in rendered() if is_gate(each)]
    assert len(policies) == 4
    assert folder["expression"].startswith('"demo-steepest" + {"images":"/pools/second"}[?')
    assert all(each["metadata"]["name"].startswith("training-demo-steepest.") for each in policies.values())
    for kind in ("Mutating", "Validating"):
        policy, binding = policies[f"{kind}AdmissionPolicy"], policies[f"{kind}AdmissionPolicyBinding"]
        where = {"matchLabels": {"kubernetes.io/metadata.name": "training"}}
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]
        assert binding["spec"]["matchResources"]["namespaceSelector"] == where
    assert "system:serviceaccount:training:demo-steepest-migrator" in text
    assert 'claimName: \\"shared\\"' in text
    assert "steepest/cluster" not in text
    assert "steepest:steepest" not in text


@pytest.mark.parametrize("own", [True, False], ids=["own", "teams"])
def test_users_jobs_have_keepers_only_in_the_own_namespace_and_on_request(*, own: bool) -> None:
    """By a policy that is bound to it alone, or by the webhook; without the value, by neither."""
    opened = {"enabled": True, "ownNamespace": own, "namespaces": ["team-a"]}
    jobs = {**TRIAL["jobs"], "systemCheckpoints": True}
    name = "training-demo-steepest.keepers.steepest.dev"
    values = {**TRIAL, "jobs": jobs, "optIn": opened}
    bound = of_kind_by_name("MutatingAdmissionPolicyBinding", values)
    flags = [
        "--keepers"
        in of_kind("Deployment", each)["admission-webhook"]["spec"]["template"]["spec"]["containers"][0]["args"]
        for each in ({**values, "optIn": {**opened, "by": "webhook"}}, ASKED)
    ]

    assert (name in bound, flags) == (own, [own, False])
    if own:
        selector = bound[name]["spec"]["matchResources"]["namespaceSelector"]
        assert selector == {"matchLabels": {"kubernetes.io/metadata.name": "training"}}
        (folder, _) = of_kind_by_name("MutatingAdmissionPolicy", values)[name]["spec"]["variables"]
        assert folder["expression"].endswith('"/cluster"')
    assert name not in of_kind_by_name("MutatingAdmissionPolicyBinding", {**TRIAL, "optIn": opened})


JOB_SETS: dict[str, Any] = {**TRIAL, "optIn": {"enabled": True, "ownNamespace": True, "kinds": ["JobSet"]}}


def test_job_sets_are_gated_and_reached_only_where_they_are_named() -> None:
    """By a policy or the webhook; the migrator alone may see and change them, and the installation names the kind."""

    def reached(values: Mapping[str, Any]) -> dict[str, list[str]]:
        return {
            name: rule["verbs"]
            for name, role in of_kind("Role", values).items()
            for rule in role["rules"]
            if "jobsets" in rule["resources"]
        }

    named = {each["metadata"]["name"]: each for each in rendered(JOB_SETS) if "Mutating" in each["kind"]}
    policy = named["training-demo-steepest.jobsets.steepest.dev"]
    asked = {**TRIAL, "optIn": {**JOB_SETS["optIn"], "by": "webhook"}}
    (registered,) = of_kind("MutatingWebhookConfiguration", asked).values()
    (webhook,) = registered["webhooks"]
    described = of_kind("ConfigMap", JOB_SETS)["installation"]["data"]["installation.toml"]

    assert reached(JOB_SETS) == {"migrator": ["list", "watch", "patch"]}
    for without in (TRIAL, ASKED, {**TRIAL, "optIn": {"enabled": False, "kinds": ["JobSet"]}}):
        assert reached(without) == {}
        assert "jobset" not in json.dumps(rendered(without)).lower()
    assert policy["spec"]["matchResources"]["namespaceSelector"] == {
        "matchLabels": {"kubernetes.io/metadata.name": "training"}
    }
    assert [rule["resources"] for rule in webhook["rules"]] == [["jobs"], ["jobsets"]]
    assert 'kinds = ["JobSet"]' in described
    assert helm("template", "demo", str(CHART), values={**TRIAL, "optIn": {"kinds": ["CronJob"]}}).returncode


def test_train_jobs_are_gated_and_reached_only_where_they_are_named() -> None:
    """So is the JobSet of each, which is read alone; one that a user makes is not gated, as no service would take it."""

    def of_train_jobs(by: str, *kinds: str) -> dict[str, Any]:
        return {**TRIAL, "optIn": {"enabled": True, "ownNamespace": True, "by": by, "kinds": ["TrainJob", *kinds]}}

    migrator = of_kind("Role", of_train_jobs("policy"))["migrator"]["rules"]
    verbs = {rule["resources"][0]: rule["verbs"] for rule in migrator}
    policies = of_kind_by_name("MutatingAdmissionPolicy", of_train_jobs("policy"))
    alone, beside = (
        next(iter(of_kind("MutatingWebhookConfiguration", of_train_jobs("webhook", *kinds)).values()))["webhooks"][0]
        for kinds in ((), ("JobSet",))
    )

    assert verbs["trainjobs"] == ["list", "watch", "patch"]
    assert verbs["jobsets"] == ["get"]
    assert {
        name.removeprefix("training-demo-steepest."): policy["spec"]["matchConstraints"]["objectSelector"].get(
            "matchLabels"
        )
        for name, policy in policies.items()
    } == {
        "jobs.steepest.dev": None,
        "trainjobs.steepest.dev": {"steepest.dev/schedule": "true"},
        "trainjob-parts.steepest.dev": {"steepest.dev/schedule": "part"},
    }
    assert [rule["resources"] for rule in alone["rules"]] == [["jobs"], ["jobsets"], ["trainjobs"]]
    assert [condition["name"] for condition in alone["matchConditions"]][2:] == ["no-job-set-but-as-a-part"]
    assert len(beside["matchConditions"]) == 2
    assert "trainjob" not in json.dumps(rendered(JOB_SETS)).lower()


def test_pytorch_jobs_are_gated_and_reached_only_where_they_are_named() -> None:
    """With the claim and the folders of the release, as the templates of Jobs."""
    values = {**TRIAL, "optIn": {"enabled": True, "ownNamespace": True, "kinds": ["PyTorchJob"]}}
    policy = of_kind_by_name("MutatingAdmissionPolicy", values)["training-demo-steepest.pytorchjobs.steepest.dev"]
    jobs = of_kind_by_name("MutatingAdmissionPolicy", values)["training-demo-steepest.jobs.steepest.dev"]
    asked = {**values, "optIn": {**values["optIn"], "by": "webhook"}}
    (registered,) = of_kind("MutatingWebhookConfiguration", asked).values()
    verbs = {rule["resources"][0]: rule["verbs"] for rule in of_kind("Role", values)["migrator"]["rules"]}

    assert policy["spec"]["variables"] == jobs["spec"]["variables"]
    assert 'claimName: "shared"' in policy["spec"]["mutations"][0]["applyConfiguration"]["expression"]
    assert [rule["resources"] for rule in registered["webhooks"][0]["rules"]] == [["jobs"], ["pytorchjobs"]]
    assert verbs["pytorchjobs"] == ["list", "watch", "patch"]
    assert not {"jobsets", "trainjobs"} & verbs.keys()
    assert "pytorchjob" not in json.dumps(rendered(JOB_SETS)).lower()


def in_namespace(kind: str, namespace: str, values: Mapping[str, Any] = TEAMS) -> dict[str, Any]:
    """Objects of a kind in one namespace, by the part that they are for."""
    return {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: each
        for each in rendered(values)
        if each["kind"] == kind and each["metadata"].get("namespace") == namespace
    }


def test_further_namespaces_get_the_rights_that_their_objects_need_and_nothing_else() -> None:
    """For the release's own accounts; nothing is made or removed there but pods that end and Events."""

    def granted(values: Mapping[str, Any], namespace: str) -> dict[str, dict[str, set[str]]]:
        return {
            part: {rule["resources"][0]: set(rule["verbs"]) for rule in role["rules"]}
            for part, role in in_namespace("Role", namespace, values).items()
        }

    sees = {"get", "list", "watch"}
    wanted = {
        "log-collector": {"pods": sees, "pods/log": {"get"}},
        "migrator": {
            "pods": {*sees, "patch", "delete"},
            "pods/log": {"get"},
            "pods/resize": {"patch"},
            "jobs": {"list", "watch", "patch"},
            "jobs/status": {"patch"},
            "events": {"create"},
        },
        "resizer": {"pods": sees, "pods/log": {"get"}, "pods/resize": {"patch"}},
    }
    with_agents = {**TEAMS, "nodeAgent": {"enabled": True}}
    with_kinds = {**TEAMS, "optIn": {**TEAMS["optIn"], "kinds": ["JobSet", "TrainJob", "PyTorchJob"]}}

    for team in ("team-a", "team-b"):
        assert granted(TEAMS, team) == wanted
        bindings = in_namespace("RoleBinding", team)
        assert bindings.keys() == wanted.keys()
        for part, binding in bindings.items():
            assert binding["roleRef"]["name"] == in_namespace("Role", team)[part]["metadata"]["name"]
            assert binding["subjects"] == [
                {"kind": "ServiceAccount", "name": f"demo-steepest-{part}", "namespace": "training"}
            ]
    assert not any("pods/log" in rights for rights in granted(with_agents, "team-a").values())
    assert granted(with_kinds, "team-b")["migrator"].keys() - wanted["migrator"].keys() == {
        "jobsets",
        "trainjobs",
        "pytorchjobs",
    }
    assert {each["metadata"].get("namespace", "training") for each in rendered()} == {"training"}


def test_further_namespaces_are_gated_and_guarded(tmp_path: Path) -> None:
    """By the same policies or the same webhook; the guard of the volume is for them alone, and knows every pool's folder."""
    pools = [{"name": "default"}, {"name": "second", "selector": "gpu=true", "queues": ["images", "text"]}]
    values = {**TEAMS, "pools": pools}
    everywhere = ["training", "team-a", "team-b"]
    asked = {**TEAMS, "optIn": {**TEAMS["optIn"], "by": "webhook"}}
    (registered,) = of_kind("MutatingWebhookConfiguration", asked).values()
    bindings = {each["metadata"]["name"]: each for each in rendered(values) if each["kind"].endswith("PolicyBinding")}
    del bindings["training-demo-steepest.services.steepest.dev"]
    guard = of_kind_by_name("ValidatingAdmissionPolicy", values)["training-demo-steepest.volume.steepest.dev"]["spec"]
    folders = next(each["expression"] for each in guard["variables"] if each["name"] == "folders")
    file = tmp_path / "installation.toml"
    file.write_text(of_kind("ConfigMap", values)["installation"]["data"]["installation.toml"])

    def opened(selector: dict[str, Any]) -> list[str]:
        (expression,) = selector["matchExpressions"]
        assert (expression["key"], expression["operator"]) == ("kubernetes.io/metadata.name", "In")
        return list(expression["values"])

    assert read_installation(file).namespaces == ("team-a", "team-b")
    assert opened(registered["webhooks"][0]["namespaceSelector"]) == everywhere
    assert {
        name.removeprefix("training-demo-steepest."): opened(each["spec"]["matchResources"]["namespaceSelector"])
        for name, each in bindings.items()
    } == {
        "jobs.steepest.dev": everywhere,
        "gate.steepest.dev": everywhere,
        "volume.steepest.dev": ["team-a", "team-b"],
        "bindings.steepest.dev": ["team-a", "team-b"],
    }
    assert json.loads(folders) == ["demo-steepest/cluster", "demo-steepest/pools/second/cluster"]
    text = json.dumps(guard)
    assert text.count('\\"shared\\"') == 2
    assert 'request.namespace != \\"training\\"' in text
    assert "system:serviceaccount:training:demo-steepest-migrator" in text
    assert '\\"steepest\\"' not in text
    assert "volume.steepest.dev" in {
        each["metadata"]["name"].removeprefix("training-demo-steepest.") for each in rendered(asked)
    }


def test_namespaces_that_cannot_be_opened_are_refused() -> None:
    """The own one is open without being named; without `optIn.enabled` none is."""
    for names, why in ((["training"], "the release's own"), (["Team"], "namespaces"), (["a", "a"], "namespaces")):
        values = {**TRIAL, "optIn": {"enabled": True, "ownNamespace": True, "namespaces": names}}
        done = helm("template", "demo", str(CHART), "--namespace", "training", values=values)
        assert done.returncode
        assert why in done.stderr
    closed = {**TRIAL, "optIn": {"namespaces": ["team-a"]}}
    assert "team-a" not in json.dumps(rendered(closed))


def test_jobs_in_queues_of_kueue_are_gated_only_where_that_is_asked() -> None:
    """Then the migrator may see Workloads and change them, also in further namespaces; other kinds stay Kueue's alone."""
    opened = {"enabled": True, "ownNamespace": True, "kueue": True, "kinds": ["JobSet"], "namespaces": ["team-a"]}
    asked = {**TRIAL, "optIn": opened}
    by_webhook = {**TRIAL, "optIn": {**opened, "by": "webhook"}}

    def unless(values: Mapping[str, Any], policy: str) -> list[str]:
        spec = of_kind_by_name("MutatingAdmissionPolicy", values)[f"training-demo-steepest.{policy}.steepest.dev"][
            "spec"
        ]
        return [each["name"] for each in spec["matchConditions"]]

    def changed(values: Mapping[str, Any], namespace: str) -> dict[str, list[str]]:
        roles = in_namespace("Role", namespace, values) if namespace else of_kind("Role", values)
        found = {
            part: rule for part, role in roles.items() for rule in role["rules"] if "workloads" in rule["resources"]
        }
        return {part: rule["verbs"] for part, rule in found.items()}

    assert changed(asked, "") == changed(asked, "team-a") == {"migrator": ["list", "patch"]}
    assert changed(JOB_SETS, "") == {}
    assert unless(asked, "jobs") == ["not-an-installations-own"]
    assert unless(asked, "jobsets") == ["not-an-installations-own", "not-in-a-queue-of-kueue"]
    assert "not-in-a-queue-of-kueue" in unless(JOB_SETS, "jobs")
    (registered,) = of_kind("MutatingWebhookConfiguration", by_webhook).values()
    conditions = {each["name"]: each["expression"] for each in registered["webhooks"][0]["matchConditions"]}
    assert conditions["not-in-a-queue-of-kueue"].startswith("request.kind.kind == 'Job' || ")


def of_kind_by_name(kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Objects of a kind by their whole names, also those of the cluster."""
    return {each["metadata"]["name"]: each for each in rendered(values) if each["kind"] == kind}


def test_an_older_server_asks_a_webhook_and_has_no_policy() -> None:
    """It would run users' Jobs beside Steepest; what only newer servers have cannot be asked of it."""
    opened = {**TRIAL, "optIn": {"enabled": True, "ownNamespace": True}}
    template = ("template", "demo", str(CHART), "--kube-version", "1.35.0")
    done = helm(*template, values=opened)
    refused = helm(*template, values={**TRIAL, "optIn": {"enabled": True, "ownNamespace": True, "by": "policy"}})
    kinds = {each["kind"] for each in yaml.safe_load_all(done.stdout) if each}

    assert {"MutatingWebhookConfiguration", "ValidatingAdmissionPolicy"} <= kinds
    assert "MutatingAdmissionPolicy" not in kinds
    assert refused.returncode
    assert "1.36" in refused.stderr


def test_the_webhook_is_asked_about_opted_in_jobs_alone() -> None:
    """By the label, in the release's namespace, when they are made; and who asks can check whom it has asked."""
    pools = [{"name": "default"}, {"name": "second", "selector": "gpu=true", "queues": ["images"]}]
    values = {**TRIAL, "optIn": {"enabled": True, "ownNamespace": True, "by": "webhook"}, "pools": pools}
    (registered,) = of_kind("MutatingWebhookConfiguration", values).values()
    (webhook,) = registered["webhooks"]
    (rule,) = webhook["rules"]
    service = of_kind("Service", values)["admission-webhook"]
    secret = of_kind("Secret", values)["admission-webhook"]["data"]
    (container,) = of_kind("Deployment", values)["admission-webhook"]["spec"]["template"]["spec"]["containers"]
    asked = webhook["clientConfig"]

    assert (rule["resources"], rule["operations"]) == (["jobs"], ["CREATE"])
    (label,) = webhook["objectSelector"]["matchExpressions"]
    assert label == {"key": "steepest.dev/schedule", "operator": "In", "values": ["true", "part"]}
    assert webhook["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "training"}}
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Fail", "None")
    assert asked["caBundle"] == secret["ca.crt"]
    assert asked["service"] == {"name": service["metadata"]["name"], "namespace": "training", "path": PATH}
    assert {"--claim=shared", "--folder=demo-steepest", "--queue=images=demo-steepest/pools/second"} <= set(
        container["args"]
    )
    assert "MutatingAdmissionPolicy" not in {each["kind"] for each in rendered(values)}


def test_users_reach_the_gateway_through_the_api_server() -> None:
    """The Service is what the client looks for; the Role, which has no binding, shows no pod; each role has a token."""
    service = of_kind("Service")["gateway"]
    rules = {
        (name, verb)
        for rule in of_kind("Role")["users"]["rules"]
        for name in rule["resources"]
        for verb in rule["verbs"]
    }
    (proxied,) = [rule for rule in of_kind("Role")["users"]["rules"] if rule["resources"] == ["services/proxy"]]
    labels = dict(each.split("=") for each in kubernetes.LABELS.split(","))

    given = base64.b64decode(of_kind("Secret")["gateway"]["data"]["tokens"]).decode()
    found = [line.split() for line in given.splitlines()]

    assert [role for role, _ in found] == ["read", "submit", "operate"]
    assert len({token for _, token in found}) == len([token for _, token in found if len(token) == 40]) == 3
    assert labels.items() <= service["metadata"]["labels"].items()
    assert [port["name"] for port in service["spec"]["ports"]] == [kubernetes.PORT]
    assert proxied["resourceNames"] == [f"http:{service['metadata']['name']}:{kubernetes.PORT}"]
    assert rules == {
        ("services", "list"),
        *(("services/proxy", verb) for verb in calls.VERBS.values()),
    }


def test_the_releases_own_namespace_is_closed_to_users_jobs_unless_it_is_opened() -> None:
    """Who makes pods there reaches the files of all jobs; to open no namespace at all is an error that names both values."""
    closed = {**TRIAL, "optIn": {"enabled": True, "namespaces": ["team-a"]}}
    nowhere = helm("template", "demo", str(CHART), values={**TRIAL, "optIn": {"enabled": True}})
    (expression,) = [
        one["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"][0]
        for one in rendered(closed)
        if one["kind"] == "MutatingAdmissionPolicyBinding"
    ]

    assert expression["values"] == ["team-a"]
    assert nowhere.returncode
    assert "optIn.namespaces" in nowhere.stderr
    assert "optIn.ownNamespace" in nowhere.stderr


def test_the_migrator_makes_and_deletes_services_of_gangs_alone() -> None:
    """RBAC knows no names beforehand, so a policy of the release says it, for the account of its migrator."""
    policy = of_kind_by_name("ValidatingAdmissionPolicy", TRIAL)["training-demo-steepest.services.steepest.dev"]
    binding = of_kind_by_name("ValidatingAdmissionPolicyBinding", TRIAL)[policy["metadata"]["name"]]
    (condition,) = policy["spec"]["matchConditions"]

    assert condition["expression"].endswith('"system:serviceaccount:training:demo-steepest-migrator"')
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]

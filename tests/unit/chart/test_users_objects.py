"""Users' objects in the chart: what is gated, guarded and reached, on request only and where it is asked."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.chart.chart_harness import ASKED, CHART, TEAMS, TRIAL, helm, of_kind, rendered

from steepest.admission.webhook import PATH
from steepest.app.settings.mounted_installation import read_installation
from steepest.client import calls, kubernetes


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

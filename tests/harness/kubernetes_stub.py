"""An API server in memory with what the adapter needs: lists, watches, patches, and users' objects that make pods.

It owns what a real one does with these requests, in the simplest way: a resumed object has gated pods, a pod without its
gate runs on the node of its selector, and the pods of one that is suspended end with status 85. A TrainJob makes a JobSet
of its own name only in that this JobSet is changed with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.harness.json_patches import PatchTestError, patched

from steepest.cluster.folders.ended_jobs import Retention
from steepest.cluster.kubernetes import KubernetesCluster
from steepest.cluster.kubernetes.agent.node_sources import AgentNode
from steepest.cluster.kubernetes.kinds.description import Kind
from steepest.cluster.kubernetes.kinds.known import JOB
from steepest.events.common import Resources

Object = dict[str, Any]


KINDS = ("nodes", "pods", "jobs", "jobsets", "trainjobs", "pytorchjobs", "workloads")


OWN = "n"
"""The namespace of the adapter's own Jobs."""


class KubernetesStub:
    """Some namespaces and nodes.

    Attributes:
        objects: By kind (as in paths) and name, which has its namespace before it (``team/mine``) if that is not
            :data:`OWN`; a kind that is not there is not known.
        asked: Method, kind and body of each request for one object.
        listed: How often each kind was listed, of other namespaces as ``team/jobs``.
        closed: Namespaces in which nothing is allowed.
        refuses: Why pods with capabilities are refused; empty: they are not.
        before: Called with method, kind and name of each of them before it takes effect.
        paths: Path and query of every request.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Object]] = {kind: {} for kind in KINDS}
        self.asked: list[tuple[str, str, Any]] = []
        self.listed: Counter[str] = Counter()
        self.before: Callable[[str, str, str], None] = lambda *_: None
        self.paths: list[str] = []
        self.closed: set[str] = set()
        self.refuses = ""
        self._refused: list[Object] = []
        self._history: dict[str, list[tuple[int, bytes]]] = {kind: [] for kind in KINDS}
        self._version = 0
        self._news = asyncio.Event()
        self._is_over = False

    # --- what a test does -----------------------------------------------------------------------------------------------

    def put(self, kind: str, found: Object) -> Object:
        """An object is there, or has changed."""
        if kind != "nodes":
            found["metadata"].setdefault("namespace", OWN)
        name = _key(found)
        is_new = name not in self.objects[kind]
        self._version += 1
        found["metadata"].setdefault("uid", f"{kind}-{self._version}")
        found["metadata"]["resourceVersion"] = str(self._version)
        self.objects[kind][name] = found
        self._send(kind, "ADDED" if is_new else "MODIFIED", found)
        return found

    def drop(self, kind: str, name: str) -> None:
        """An object is gone."""
        self._version += 1
        gone = self.objects[kind].pop(name)
        gone["metadata"]["resourceVersion"] = str(self._version)
        self._send(kind, "DELETED", gone)

    def hide(self, kind: str, name: str) -> None:
        """An object has lost a label that watches ask for: for them it is deleted, with its state of before."""
        self._version += 1
        self._send(kind, "DELETED", self.objects[kind][name])

    def node(self, name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
        """A node that is ready."""
        status = {
            "allocatable": {"cpu": "2", "memory": "2Gi"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        return self.put("nodes", {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": status})

    # --- what a server does ---------------------------------------------------------------------------------------------

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        self.paths.append(request.path_qs)
        if request.path == f"/api/v1/namespaces/{OWN}/events":
            return web.json_response({"items": self._refused, "metadata": {}})
        kind = next((each for each in KINDS if each in request.path.split("/")), "")
        name = request.path.rpartition(f"/{kind}/")[2] if f"/{kind}/" in request.path else ""
        name = name.removesuffix("/status")
        if not kind or "/" in name:
            return web.Response(text="") if name.endswith("/log") else web.json_response({}, status=404)
        place = _namespace(request.path)
        if request.method == "GET" and not name and not request.query.get("watch"):
            self.listed[_named(place, kind)] += 1
        if place in self.closed:
            return web.json_response({"message": f'{kind} is forbidden: User "u" cannot list resource'}, status=403)
        if kind not in self.objects:
            return web.json_response({"message": "the server could not find the requested resource"}, status=404)
        if request.method == "GET" and not name:
            return await self._watched(request, kind) if request.query.get("watch") else self._listed(request, kind)
        body = json.loads(await request.text() or "null")
        if isinstance(body, dict) and request.method == "POST":
            body["metadata"].setdefault("namespace", place)
        name = _named(place, name or body["metadata"]["name"])
        self.asked.append((request.method, kind, body))
        self.before(request.method, kind, name)
        status, found = self._done(request.method, kind, name, body)
        return web.json_response(found, status=status)

    def end(self) -> None:
        """End all watches."""
        self._is_over = True
        self._news.set()

    def _done(self, method: str, kind: str, name: str, body: Any) -> tuple[int, Object]:
        found = self.objects[kind].get(name)
        if method == "POST":
            if found is not None:
                return 409, {"message": "already exists"}
            made = self.put(kind, body)
            self.follow(kind, made)
            return 201, made
        if found is None:
            return 404, {"message": "not found"}
        where = "preconditions" if method == "DELETE" else "metadata"
        uid = body.get(where, {}).get("uid") if isinstance(body, dict) else None
        if method != "GET" and uid not in {None, found["metadata"]["uid"]}:
            return 409, {"message": "the UID in the precondition is another one"}
        if method == "PATCH" and isinstance(body, list):
            try:
                found = patched(found, body)
            except PatchTestError:
                return 422, {"message": "a test of the patch fails"}
            self.put(kind, found)
            self.follow(kind, found)
        elif method == "PATCH":
            _merge(found, body)
            self.put(kind, found)
            self.follow(kind, found)
        elif method == "DELETE":
            self.drop(kind, name)
        return 200, found

    def follow(self, kind: str, changed: Object) -> None:
        """What Kubernetes' own controllers do then."""
        if kind == "pods" and not changed["spec"].get("schedulingGates"):
            changed["spec"]["nodeName"] = changed["spec"]["nodeSelector"]["kubernetes.io/hostname"]
            digits = hashlib.sha256(changed["metadata"]["uid"].encode()).hexdigest()
            running = [{"name": "job", "state": {"running": {}}, "containerID": f"containerd://{digits}"}]
            changed["status"] = {"phase": "Running", "containerStatuses": running}
            self.put("pods", changed)
        elif kind == "trainjobs":
            self._change_made(changed)
        elif kind in {"jobs", "jobsets", "pytorchjobs"}:
            uid = changed["metadata"]["uid"]
            mine = [
                pod for pod in self.objects["pods"].values() if pod["metadata"]["ownerReferences"] == [{"uid": uid}]
            ]
            suspended = changed["spec"].get("runPolicy", changed["spec"])["suspend"]
            if not suspended and not mine:
                for template, labels in _templates(changed):
                    if self.refuses and '"add"' in json.dumps(template):
                        self._refused.append({"metadata": {}, "message": self.refuses})
                    else:
                        self._make_pod(changed["metadata"], template, labels)
            for pod in mine if suspended else ():
                ended = [{"name": "job", "state": {"terminated": {"exitCode": 85}}}]
                pod["status"] = {"phase": "Failed", "containerStatuses": ended}
                self.put("pods", pod)
                self.drop("pods", _key(pod))

    def _change_made(self, train_job: Object) -> None:
        made = self.objects["jobsets"][_key(train_job)]
        made["spec"]["suspend"] = train_job["spec"]["suspend"]
        roles = {role["name"]: role["template"]["spec"]["template"] for role in made["spec"]["replicatedJobs"]}
        for patch in train_job["spec"].get("runtimePatches", []):
            for role in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
                change, template = role["template"]["spec"]["template"], roles[role["name"]]
                template.setdefault("metadata", {}).setdefault("labels", {}).update(change["metadata"]["labels"])
                template["spec"]["schedulingGates"] = list(change["spec"]["schedulingGates"])
        self.put("jobsets", made)
        self.follow("jobsets", made)

    def _make_pod(self, owner: Object, template: Object, labels: dict[str, str]) -> None:
        made = json.loads(json.dumps(template))
        metadata = made.get("metadata", {})
        named = {
            "name": f"{owner['name']}-{self._version}",
            "namespace": owner["namespace"],
            "ownerReferences": [{"uid": owner["uid"]}],
        }
        labelled = {**metadata.get("labels", {}), **labels}
        self.put("pods", {"metadata": {**metadata, **named, "labels": labelled}, "spec": made["spec"]})

    def _listed(self, request: web.Request, kind: str) -> web.Response:
        items = list(self.objects[kind].values()) if "/namespaces/" in request.path or kind == "nodes" else []
        place = _namespace(request.path)
        items = [each for each in items if _is_in(place, each) and _matches(kind, each, request.query)]
        return web.json_response({"items": items, "metadata": {"resourceVersion": str(self._version)}})

    async def _watched(self, request: web.Request, kind: str) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        sent = int(request.query["resourceVersion"])
        while not self._is_over:
            news = self._news
            for version, line in [one for one in self._history[kind] if one[0] > sent]:
                found = json.loads(line)["object"]
                if _is_in(_namespace(request.path), found) and _matches(kind, found, request.query):
                    await answer.write(line)
                sent = version
            await news.wait()
        return answer

    def _send(self, kind: str, type_: str, found: Object) -> None:
        line = json.dumps({"type": type_, "object": found}).encode() + b"\n"
        self._history[kind].append((self._version, line))
        self._news.set()
        self._news = asyncio.Event()


def _key(found: Object) -> str:
    """The name under which an object is kept."""
    return _named(found["metadata"].get("namespace", OWN), found["metadata"]["name"])


def _named(place: str, name: str) -> str:
    return name if place == OWN else f"{place}/{name}"


def _namespace(path: str) -> str:
    """The namespace of a path; of one that has none, the adapter's own."""
    _, named, rest = path.partition("/namespaces/")
    return rest.partition("/")[0] if named else OWN


def _is_in(place: str, found: Object) -> bool:
    return bool(found["metadata"].get("namespace", OWN) == place)


def _matches(kind: str, found: Object, query: Mapping[str, str]) -> bool:
    """Whether an object has the fields and labels that are asked for; all pods have the adapter's own labels."""
    fields = {"spec.nodeName": found.get("spec", {}).get("nodeName"), "metadata.name": found["metadata"]["name"]}
    labels = found["metadata"].get("labels", {})
    for has, asked in ((fields, "fieldSelector"), *(((labels, "labelSelector"),) if kind != "pods" else ())):
        for one in filter(None, query.get(asked, "").split(",")):
            name, _, value = one.partition("=")
            if (has.get(name.removesuffix("!")) == value) == name.endswith("!"):
                return False
    return True


def _templates(owner: Object) -> list[tuple[Object, dict[str, str]]]:
    """The template of each pod that an object makes, and the labels that its controller adds."""
    index = "batch.kubernetes.io/job-completion-index"
    if types := owner["spec"].get("pytorchReplicaSpecs"):
        said = "training.kubeflow.org/replica-"
        return [
            (each["template"], {f"{said}type": name.lower(), f"{said}index": str(number)})
            for name, each in types.items()
            for number in range(each["replicas"])
        ]
    roles = owner["spec"].get("replicatedJobs", [])
    if not roles:
        spec = owner["spec"]
        return [(spec["template"], {index: str(number)}) for number in range(spec.get("parallelism", 1))]
    return [
        (
            role["template"]["spec"]["template"],
            {
                "jobset.sigs.k8s.io/replicatedjob-name": role["name"],
                "jobset.sigs.k8s.io/job-index": str(job),
                index: str(number),
            },
        )
        for role in roles
        for job in range(role.get("replicas", 1))
        for number in range(role["template"]["spec"].get("parallelism", 1))
    ]


def _merge(into: Object, change: Object) -> None:
    """A strategic merge, as far as the adapter uses it."""
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        elif key == "schedulingGates":
            gone = [one["name"] for one in value if one.get("$patch") == "delete"]
            into[key] = [one for one in into.get(key, []) if one["name"] not in gone]
        elif key == "conditions":
            kept = {one["type"]: one for one in into.get(key, [])}
            for one in value:
                kept[one["type"]] = {**kept.get(one["type"], {}), **one}
            into[key] = [one for one in kept.values() if "$patch" not in one]
        elif value is None:
            into.pop(key, None)
        else:
            into[key] = value


@contextlib.asynccontextmanager
async def served(stub: KubernetesStub, kubeconfig: Path) -> AsyncIterator[None]:
    """Serve it, and write where it is."""
    application = web.Application(client_max_size=1 << 24)
    application.router.add_route("*", "/{tail:.*}", stub.answer)
    async with TestServer(application) as running:
        config = {
            "clusters": [{"name": "c", "cluster": {"server": str(running.make_url("")).rstrip("/")}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        await asyncio.to_thread(kubeconfig.write_text, json.dumps(config))
        try:
            yield
        finally:
            stub.end()


def adapter_on(
    folder: Path,
    nodes: Sequence[tuple[str, Resources]] | str,
    kinds: Sequence[Kind] = (JOB,),
    *,
    agent: AgentNode | None = None,
    has_agents: bool = False,
    namespaces: Sequence[str] = (),
    system_checkpoints: bool = False,
    retention: Retention = Retention(),  # noqa: B008 - frozen
) -> KubernetesCluster:
    """An adapter over the server whose kubeconfig is in this folder, which is its volume as well."""
    return KubernetesCluster(
        folder / "state",
        nodes,
        "pool",
        namespace=OWN,
        claim="c",
        volume=folder,
        image="trainer:3",
        kubeconfig=folder / "kubeconfig",
        heartbeat_s=0.1,
        agent=agent,
        has_agents=has_agents,
        kinds=kinds,
        namespaces=namespaces,
        system_checkpoints=system_checkpoints,
        retention=retention,
    )

"""A test Kubernetes: kmock's API server, with the schemas, a manifest's permissions, and Jobs that really run here.

``python cluster.py ROLES LOG NODE...`` prints its port. For each request to a resource it writes a line ``[verb, group,
resource]`` to LOG; it refuses what no rule of ROLES grants, and what the schemas of Kubernetes do not accept. The user
``admin`` may do everything, and is not logged.
"""

# mypy: ignore-errors
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
# ruff: noqa: ANN401 - the emulator's own types are private
from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp.web
import kmock
import kubernetes_validate
import yaml
from kmock._internal.apps import Server
from kmock._internal.k8s import KubernetesEmulator, KubernetesError

Json = Any
OWNER = "batch.kubernetes.io/controller-uid"
PODS, JOBS, NODES = ("v1/pods", "batch/v1/jobs", "v1/nodes")
VERBS = {"FETCH": "get", "UPDATE": "patch"}
KINDS = {"pods": "Pod", "jobs": "Job", "nodes": "Node"}
RBAC = "rbac.authorization.k8s.io/v1"
SET_UP = {
    "v1/namespaces": "Namespace",
    "v1/serviceaccounts": "ServiceAccount",
    **{f"{RBAC}/{one.lower()}s": one for one in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")},
}
KINDS |= {resource.rpartition("/")[2]: kind for resource, kind in SET_UP.items()}
WIDE = {"nodes", "namespaces", "clusterroles", "clusterrolebindings"}  # in no namespace


def granted(roles: Path) -> set[tuple[str, str, str]]:
    """Return every verb, group and resource that the roles of a manifest grant."""
    rules = [
        rule
        for one in yaml.safe_load_all(roles.read_text("utf-8"))
        if one["kind"] in {"Role", "ClusterRole"}
        for rule in one["rules"]
    ]
    return {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


class Cluster(KubernetesEmulator):
    """The emulator, with selectors, permissions, schemas, and a kubelet."""

    def __init__(self, roles: Path, log: Path) -> None:
        super().__init__()
        self.rights, self.log, self.said, self.running = granted(roles), log, dict[str, str](), set[Any]()
        for resource in (PODS, JOBS, NODES, *SET_UP):
            plural = resource.rpartition("/")[2]
            verbs = ("get", "list", "watch", "create", "patch", "delete")
            names = {"singular": plural[:-1], "shortnames": (), "categories": ()}
            subs = ("log",) if plural == "pods" else ()
            held = {
                "kind": KINDS[plural],
                "verbs": verbs,
                "namespaced": plural not in WIDE,
                "subresources": subs,
                **names,
            }
            self.resources[resource] = held
        self["watch"] << {"Content-Type": "application/json"} << self._serve_watch
        self["get /api/v1"] << self.core
        served = {"api/v1": ("v1/namespaces", "v1/serviceaccounts"), "apis/batch/v1": (JOBS,)}
        served[f"apis/{RBAC}"] = tuple(one for one in SET_UP if one.startswith(RBAC))
        self["get /openapi/v3"] << {"paths": {one: {"serverRelativeURL": f"/openapi/v3/{one}"} for one in served}}
        for place, resources in served.items():
            paths = {f"/{place}/{one.rpartition('/')[2]}/{{name}}": {"patch": taking(one)} for one in resources}
            self[f"get /openapi/v3/{place}"] << {"openapi": "3.0.0", "info": {}, "paths": paths}

    async def core(self, request: Any) -> Json:
        """Return what the core group holds; the emulator calls it "/v1", which kubectl does not understand."""
        return {**await self._serve_version(request), "groupVersion": "v1"}

    async def __call__(self, request: Any) -> aiohttp.web.StreamResponse:
        if request.path != "/api/v1/namespaces":
            return await super().__call__(request)
        made = await request.json()  # the emulator cannot parse this address
        self.checked(made)
        self.objects["v1/namespaces", None, made["metadata"]["name"]] = made
        return aiohttp.web.json_response(made, status=201)

    async def _handle(self, request: Any) -> aiohttp.web.StreamResponse:
        if request.resource is None or request.resource.plural is None:
            return await super()._handle(request)
        plural = "/".join(filter(None, (request.resource.plural, request.subresource)))
        verb = VERBS.get(request.action.name, request.action.name.lower())
        asked = (verb, request.resource.group, plural)
        if request.headers.get("Impersonate-User") == "admin":
            if verb == "create":
                self.checked(request.data)
            return await super()._handle(request)
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(asked)}\n")
        if asked not in self.rights:
            raise KubernetesError(403, "Forbidden", f"forbidden: cannot {verb} {plural}")
        if request.subresource == "log":
            return aiohttp.web.Response(text=self.said.get(request.name, ""))
        if verb == "create":
            self.checked(request.data)
        if verb == "create" and plural == "jobs":
            request.data["spec"]["selector"] = {"matchLabels": {OWNER: request.data["metadata"]["name"]}}
        answer = await super()._handle(request)
        if verb == "create" and plural == "jobs":
            task = asyncio.create_task(self.run(request.data, request.namespace))
            self.running.add(task)
        return answer

    def checked(self, data: Json) -> None:
        """Refuse what the published schemas do not accept."""
        try:
            kubernetes_validate.validate(data, kubernetes_validate.latest_version(), strict=True)
        except kubernetes_validate.ValidationError as error:
            raise KubernetesError(422, "Invalid", str(error.message)) from error

    async def _serve_list(self, request: Any) -> Json:
        made = await super()._serve_list(request)
        kind = KINDS[request.resource.plural]
        group = "/".join(filter(None, (request.resource.group, request.resource.version)))
        items = [one for one in made["items"] if selected(request.params, one)]
        return {"apiVersion": group, "kind": f"{kind}List", "metadata": {"resourceVersion": "1"}, "items": items}

    async def _serve_watch(self, request: Any) -> AsyncIterator[Json]:
        async for event in super()._serve_watch(request):
            if not isinstance(event, dict) or selected(request.params, event["object"]):
                yield event

    async def run(self, job: Json, namespace: str) -> None:
        """Run the container of a Job as its node's kubelet would, and return how it ended."""
        name, spec = job["metadata"]["name"], job["spec"]["template"]["spec"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-x", "namespace": namespace, "labels": {OWNER: name}},
            "spec": spec,
            "status": {"phase": "Running"},
        }
        self.objects[PODS, namespace, f"{name}-x"] = pod
        [container] = spec["containers"]
        environ = {**os.environ, **{one["name"]: one["value"] for one in container.get("env", ())}}
        child = await asyncio.create_subprocess_exec(
            *container["command"],
            *container.get("args", ()),
            env={**environ, "NODE": spec["nodeName"]},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await child.communicate()
        self.said[f"{name}-x"] = said.decode("utf-8", "replace")
        how = "Failed" if child.returncode else "Complete"
        await self.patched(JOBS, namespace, name, {"status": {"conditions": [{"type": how, "status": "True"}]}})

    async def patched(self, resource: str, namespace: str, name: str, patch: Json) -> None:
        """Change an object, and notify its watchers."""
        held = self.objects[resource, namespace, name]
        held.patch(patch)
        await self._buses[kmock.resource(resource)].put({"type": "MODIFIED", "object": held.raw})


def taking(resource: str) -> Json:
    """Return the declaration of an API that it validates the fields of its input."""
    *group, version, plural = resource.split("/")
    return {
        "parameters": [{"name": "fieldValidation", "in": "query"}],
        "x-kubernetes-group-version-kind": {"group": "".join(group), "version": version, "kind": KINDS[plural]},
    }


def selected(params: Json, one: Json) -> bool:
    """Return whether an object has the requested name and labels."""
    labels = one["metadata"].get("labels", {})
    wanted = dict(pair.split("=", 1) for pair in filter(None, params.get("labelSelector", "").split(",")))
    fields: Callable[[str], str] = lambda said: said.removeprefix("metadata.name=")  # noqa: E731 - the one field
    name = fields(params.get("fieldSelector", ""))
    return all(labels.get(key) == value for key, value in wanted.items()) and name in {"", one["metadata"]["name"]}


async def main(roles: str, log: str, *nodes: str) -> None:
    """Serve until this process is killed."""
    cluster = Cluster(Path(roles), Path(log))
    for name in nodes:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}, "status": {}}
        cluster.objects[NODES, None, name] = node
    async with cluster, Server(cluster) as server:
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""A controller with the rights of the manifests alone, its HTTP interface, and people who may not do much."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import httpx2
import yaml

from grus.cli.kubernetes import installer
from grus.kubernetes.client.api import Api
from grus.kubernetes.client.resource_kinds import GPU_JOBS, PODS, SERVICE_ACCOUNTS
from grus.kubernetes.install import rbac
from grus.kubernetes.install.install_options import Settings
from grus.kubernetes.install.manifests import objects
from grus.kubernetes.names import JOB
from grus.model.identifiers import UserName
from grus.model.interfaces import AccessRole, User
from grus.operator.admission import MANAGER
from grus.operator.options import SYSTEM
from grus.server.app import create_app
from tests.kubernetes.clusters import Cluster, until
from tests.kubernetes.pool import KubernetesPool

Object = dict[str, Any]

MEMBER, OTHER, ADMIN = "mallory", "alice", "root"
ACCOUNTS = (rbac.CONTROLLER, rbac.AGENT, rbac.PROFILER)
HOST = "127.0.0.1:7600"


def bring_rights(api: Api) -> None:
    """What an installation applies, but for its pods."""
    settings = Settings(disruption_version=installer.disruption_version(api))
    made = [one for one in objects(settings) if one["kind"] not in ("Deployment", "DaemonSet")]
    installer.apply(api, made, force=True, tell=lambda step: None)


def as_account(cluster: Cluster, api: Api, folder: Path, name: str) -> Api:
    """A connection with a token of one of Grus's service accounts."""
    path = SERVICE_ACCOUNTS.path(SYSTEM, name, "token")
    token = api.raw("POST", path, {"spec": {}})["status"]["token"]
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    file = folder / f"{name}.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return Api.connect(file, connections=16)


class InstalledPool(KubernetesPool):
    """The controller is `grus-controller`; `ask` is a request of a person with a token."""

    settings: ClassVar[Mapping[str, Any]] = {
        "allowed_pod_fields": ("spec.dnsPolicy", "open:spec.tolerations")
    }

    def controller_api(self) -> Api:
        bring_rights(self.api)
        connected = as_account(self._cluster, self.api, self._folder, rbac.CONTROLLER)
        self._stack.callback(connected.close)
        until(lambda: self.can(rbac.CONTROLLER, "list", "pods"), "the rights are in force")
        return connected

    def can(self, account: str, verb: str, resource: str, *more: str) -> bool:
        """The answer of `kubectl auth can-i`."""
        who = f"--as=system:serviceaccount:{SYSTEM}:{account}"
        try:
            return self.kubectl("auth", "can-i", verb, resource, who, *more).strip() == "yes"
        except Exception as refusal:  # noqa: BLE001 - kubectl ends with 1 where the answer is no
            return "yes" in str(getattr(refusal, "stdout", ""))

    @contextmanager
    def serving(self) -> Iterator[None]:
        services = self.controller.services
        services.users.put(MANAGER, User(name=UserName(ADMIN), role=AccessRole.ADMIN))
        for name in (MEMBER, OTHER):
            services.users.put(MANAGER, User(name=UserName(name)))
        self._tokens = {
            name: services.users.new_token(MANAGER, UserName(name), "test")[0]
            for name in (ADMIN, MEMBER, OTHER)
        }
        self._app = create_app(self.controller.services, pulse=self.controller.loop.pulse)
        self._runner = asyncio.Runner()
        life = self._app.router.lifespan_context(self._app)
        self._runner.run(life.__aenter__())
        try:
            yield
        finally:
            self.clear()
            self._runner.run(life.__aexit__(None, None, None))
            self._runner.close()

    def clear(self) -> None:
        """No job is left anywhere, and no pod of one."""
        for namespace in {one["metadata"]["namespace"] for one in self.api.list(GPU_JOBS)[0]}:
            self.api.raw("DELETE", GPU_JOBS.path(namespace))
        until(lambda: not self.api.list(GPU_JOBS)[0], "all jobs are gone")
        until(lambda: not self.api.list(PODS, labels=JOB)[0], "all workers are gone")

    def ask(self, method: str, path: str, who: str = MEMBER, **options: Any) -> httpx2.Response:
        async def talk() -> httpx2.Response:
            transport = httpx2.ASGITransport(app=self._app)
            headers = {"Authorization": f"Bearer {self._tokens[who]}"}
            async with httpx2.AsyncClient(transport=transport, base_url=f"http://{HOST}") as client:
                return await client.request(method, path, headers=headers, **options)

        return self._runner.run(talk())

    def submit(self, who: str = MEMBER, **fields: Any) -> httpx2.Response:
        job = {"run": "true", "image": "team/train:1", "resources": {"gpu": 1}, **fields}
        return self.ask("POST", "/v1/jobs", who, json=job)

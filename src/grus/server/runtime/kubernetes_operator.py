"""A controller's process with everything in front of it: probes from the start, the HTTP interface as leader.

Of several replicas one leads; only it is ready, so that a Service sends everybody there. The others wait, and
answer only that they are alive.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from grus.kubernetes.api_objects.job_namespaces import RESTRICTED
from grus.kubernetes.client.api import Api, Refused, Unreachable
from grus.kubernetes.client.resource_kinds import PODS
from grus.kubernetes.install.install_options import NO_FIELDS, PORT, PROBES
from grus.kubernetes.install.manifests import LEADER
from grus.operator.controller import Controller
from grus.operator.leader_lifecycle import Brake, lead, on_signals
from grus.operator.options import SYSTEM, Options
from grus.sdk.state_paths import places
from grus.server.app import Mount, create_app
from grus.server.config import ServerSettings
from grus.server.http import listener
from grus.server.runtime.first_start import ensure_admin
from grus.server.runtime.health import ServerHealth
from grus.server.runtime.server_metrics import Figures

log = logging.getLogger(__name__)

Address = tuple[str, int]


class Probes:
    """Answers `/livez` and `/readyz` on a port of its own, to anybody: they tell nothing else."""

    def __init__(self, address: Address) -> None:
        self.health: ServerHealth | None = None
        """Health of the leader's loop; None while this replica waits."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, text = outer.answer(self.path)
                body = text.encode()
                self.send_response(code)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing: it is called every few seconds."""

        self._server = ThreadingHTTPServer(address, Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="probes", daemon=True)
        self._thread.start()

    def answer(self, path: str) -> tuple[int, str]:
        health = self.health
        wrong = health.wrong() if health is not None else ""
        if path == "/livez":
            return (500, wrong) if wrong else (200, "ok")
        if path == "/readyz":
            ready = health is not None and not wrong
            return (200, "leads") if ready else (503, wrong or "another one leads")
        return 404, "there is /livez and /readyz"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def main(
    kubeconfig: Path | None = None, env: Mapping[str, str] = os.environ, mount: Mount | None = None
) -> int:
    """Run as the Deployment does: configured by the environment."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    at = places(env)
    namespace = env.get("GRUS_NAMESPACE") or SYSTEM
    service = f"grus.{namespace}"
    names = ("localhost", "127.0.0.1", "grus", service, f"{service}.svc", f"{service}.svc.cluster.local")
    more = tuple(name for name in env.get("GRUS_ALLOWED_HOSTS", "").split(",") if name)
    settings = ServerSettings(
        places=at,
        host="0.0.0.0",  # noqa: S104 - inside its pod, behind a NetworkPolicy
        port=PORT,
        insecure_http=True,
        allowed_hosts=(*names, *more),
    )
    options = Options(
        state=at.state,
        image=env.get("GRUS_IMAGE", ""),
        namespace=namespace,
        resource=env.get("GRUS_GPU_RESOURCE") or "nvidia.com/gpu",
        forecasts=True,
        template=json.loads(env.get("GRUS_POD_TEMPLATE") or "{}"),
        allowed_pod_fields=allowed_pod_fields(env.get("GRUS_ALLOWED_POD_FIELDS", "")),
        pod_security=env.get("GRUS_POD_SECURITY") or RESTRICTED,
    )
    api = Api.connect(kubeconfig, connections=16)
    return serve_kubernetes(
        api,
        options,
        settings,
        token_file=at.token_file,
        mark=_marker(api, env.get("GRUS_POD", ""), namespace),
        mount=mount,
    )


def allowed_pod_fields(text: str) -> tuple[str, ...]:
    """Split a text with commas or spaces into paths; the word `none` means no paths."""
    return tuple(path for path in text.replace(",", " ").split() if path != NO_FIELDS)


def _marker(api: Api, pod: str, namespace: str) -> Callable[[bool], None]:
    """Labels the pod that answers, by which the Service finds it."""

    def mark(leads: bool) -> None:
        labels = {LEADER: "true" if leads else None}
        try:
            api.patch(PODS, pod, {"metadata": {"labels": labels}}, namespace)
        except (Refused, Unreachable) as trouble:
            log.warning("the Service may not find the leader: %s", trouble)

    return mark if pod else lambda _: None


def serve_kubernetes(
    api: Api,
    options: Options,
    settings: ServerSettings,
    *,
    token_file: Path,
    probes: Address = ("", PROBES),
    mark: Callable[[bool], None] = lambda _: None,
    mount: Mount | None = None,
) -> int:
    """Serve until it is asked to stop or has lost the leadership; return the exit code. Raises GrusError if
    it cannot.

    `token_file` holds the administrator's token, or will; `mark` receives whether this one leads and answers.
    """
    brake = Brake()
    on_signals(brake)
    with ExitStack() as stack:
        probe = Probes(probes)
        stack.callback(probe.close)
        sock = listener.bind(settings.host, settings.port)
        stack.callback(sock.close)
        mark(False)  # clears the mark of an earlier leader in this place

        def serve(controller: Controller, brake: Brake) -> None:
            if ensure_admin(controller.store, token_file, time.time()) is not None:
                controller.services.accounts.refresh()
            app = create_app(
                controller.services,
                allowed_hosts=settings.hosts,
                allowed_origins=settings.allowed_origins,
                requests_per_second=settings.requests_per_second,
                pulse=controller.loop.pulse,
                figures=Figures(),
                mount=mount,
            )
            http = listener.Brake()
            brake.on_pull = lambda: http.pull(brake.why or "asked to stop")
            probe.health = app.state.health
            try:
                if not brake.pulled:
                    sock.listen(listener.BACKLOG)
                    mark(True)
                    listener.run(app, sock, settings, http)
            finally:
                mark(False)
                brake.pull()

        return lead(api, options, brake, serve=serve)

"""Pretend kubelets for nodes that exist in the API only: pods that are put on them run, end and go as on
real ones.

Nothing is executed. A pod runs as soon as it is on a node, ends when a test says so (`finish`), and when it
is deleted it ends at once and is confirmed as a kubelet would. Node agents are pretended with them: what a
worker said last counts as read.
"""

import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from grus.kubernetes.client.api import Api, Conflicts, Invalid, Missing, Unreachable
from grus.kubernetes.client.informer import Reflector
from grus.kubernetes.client.resource_kinds import NODES, PODS, Object
from grus.kubernetes.names import READ, RESERVATION, UUIDS

GPU = "nvidia.com/gpu"


def add_nodes(
    api: Api,
    names: Iterable[str],
    gpus: int,
    labels: dict[str, str] | None = None,
    port: int = 0,
    resource: str = GPU,
) -> None:
    """Nodes of that many GPUs each, ready at once; `port` is where somebody answers for their kubelets."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", resource: str(gpus)}
    ready = {"type": "Ready", "status": "True", "reason": "Pretend"}
    for name in names:
        api.create(NODES, {"metadata": {"name": name, "labels": labels or {}}})
        status: Object = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        if port:
            status["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
            status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
        api.patch(NODES, name, {"status": status}, part="status")
        # New nodes are tainted until a controller has seen them ready; that may take a second.
        api.patch(NODES, name, {"spec": {"taints": None}})


class _Logs(BaseHTTPRequestHandler):
    """What a kubelet answers when it is asked for a log: that nothing was printed."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


class Kubelets:
    """Of all nodes in a cluster; `close` ends them. `port` is the one to give to `add_nodes`."""

    def __init__(self, api: Api, threads: int = 4) -> None:
        self._api = api
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Logs)
        self._server.socket = _tls().wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="kubelet-logs", daemon=True).start()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="kubelet")
        self._started: set[str] = set()
        self.pods = Reflector(api, PODS, fields="spec.nodeName!=", on_change=self._changed)
        self.pods.wait_synced(60)

    def finish(self, namespace: str, name: str, code: int = 0) -> None:
        """The pod's program ends."""
        self._end(self._api.get(PODS, name, namespace), code)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.pods.close()
        self._threads.shutdown(cancel_futures=True)

    def __enter__(self) -> "Kubelets":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _changed(self, kind: str, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self._started.discard(uid)
        elif "deletionTimestamp" in pod["metadata"]:
            if pod["metadata"].get("deletionGracePeriodSeconds") != 0:
                self._threads.submit(self._try, self._remove, pod)
        elif uid not in self._started and (pod.get("status") or {}).get("phase", "Pending") == "Pending":
            self._started.add(uid)
            self._threads.submit(self._try, self._run, pod)

    def _try(self, act: Callable[[Object], None], pod: Object) -> None:
        try:
            act(pod)
        except (Missing, Conflicts, Invalid, Unreachable):
            return  # it has changed; the next news of it comes

    def _run(self, pod: Object) -> None:
        state = {"running": {"startedAt": _now()}}
        if RESERVATION in (pod["metadata"].get("labels") or {}):
            metadata = pod["metadata"]
            uuids = {"metadata": {"annotations": {UUIDS: f"GPU-{metadata['uid']}"}}}
            self._api.patch(PODS, metadata["name"], uuids, metadata["namespace"])
        self._say(pod, {"phase": "Running", "podIP": "10.0.0.1", **_containers(pod, state)})

    def _remove(self, pod: Object) -> None:
        metadata = pod["metadata"]
        if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            self._end(pod, 128 + 15)
        self._api.delete(PODS, metadata["name"], metadata["namespace"], grace=0, uid=metadata["uid"])

    def _end(self, pod: Object, code: int) -> None:
        metadata = pod["metadata"]
        notes = {"metadata": {"annotations": {READ: "true"}}}
        self._api.patch(PODS, metadata["name"], notes, metadata["namespace"])
        state = {
            "terminated": {
                "exitCode": code,
                "reason": "Completed" if code == 0 else "Error",
                "startedAt": _now(),
                "finishedAt": _now(),
            }
        }
        self._say(pod, {"phase": "Failed" if code else "Succeeded", **_containers(pod, state)})

    def _say(self, pod: Object, status: Object) -> None:
        metadata = pod["metadata"]
        self._api.patch(PODS, metadata["name"], {"status": status}, metadata["namespace"], part="status")


def _tls() -> ssl.SSLContext:
    """Any certificate will do: API servers do not check those of kubelets unless told to."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        key, certificate = f"{folder}/key", f"{folder}/certificate"
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        command += ["-nodes", "-days", "2", "-subj", "/CN=kubelet", "-keyout", key, "-out", certificate]
        subprocess.run(command, check=True, capture_output=True)
        context.load_cert_chain(certificate, key)
    return context


def _containers(pod: Object, state: Object) -> Object:
    found = [
        {
            "name": one["name"],
            "image": one.get("image", ""),
            "imageID": "",
            "ready": "running" in state,
            "restartCount": 0,
            "state": state,
        }
        for one in pod["spec"]["containers"]
    ]
    return {"containerStatuses": found}


def _now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

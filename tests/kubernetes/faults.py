"""A way to the API server that fails on demand: what a real one does only on its worst days.

It speaks plain HTTP on loopback and hands on what it is asked, until a test gives it a rule.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import SHUT_RDWR, socket

import urllib3

from grus.kubernetes.client.kubeconfig import access
from tests.kubernetes.clusters import PATIENCE

PASS, SILENT, LOST = 0, -1, -2
"""Rules: hand it on; say nothing; carry it out, but lose the answer. Any other is the code of a refusal."""
Rule = Callable[[str, str], int]
"""Of method and path."""


def everything(rule: int) -> Rule:
    return lambda method, path: rule


class Faults:
    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self.rule: Rule = everything(PASS)
        self.asked: list[tuple[str, str]] = []
        """Method and path of all requests so far."""
        self.closed = threading.Event()
        self._clients: set[socket] = set()
        self._answers: set[urllib3.BaseHTTPResponse] = set()
        self._lock = threading.Lock()
        self._real = access(kubeconfig)
        self._pool = urllib3.connectionpool.connection_from_url(
            self._real.server, maxsize=20, ssl_context=self._real.trust
        )
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.kubeconfig = folder / "faults.kubeconfig"
        self.kubeconfig.write_text(json.dumps(configuration(f"http://127.0.0.1:{self._server.server_port}")))

    def cut(self) -> None:
        """All connections that there are, in the middle of what they do."""
        with self._lock:
            clients, answers = list(self._clients), list(self._answers)
        for client in clients:
            with suppress(OSError):
                client.shutdown(SHUT_RDWR)
        for answer in answers:
            with suppress(ValueError, RuntimeError, OSError):
                answer.shutdown()

    def close(self) -> None:
        self.closed.set()
        self._server.shutdown()
        self._thread.join()
        self.cut()
        self._server.server_close()  # waits for nobody: the threads are daemons
        self._pool.close()

    @contextmanager
    def tracked(self, client: socket, answer: urllib3.BaseHTTPResponse | None = None) -> Iterator[None]:
        with self._lock:
            self._clients.add(client)
            if answer is not None:
                self._answers.add(answer)
        try:
            yield
        finally:
            with self._lock:
                self._clients.discard(client)
                if answer is not None:
                    self._answers.discard(answer)

    def forward(
        self, method: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> urllib3.BaseHTTPResponse:
        headers["Authorization"] = self._real.credential.header()
        return self._pool.urlopen(method, path, body, headers, retries=False, preload_content=False)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        faults = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one packet an answer
            disable_nagle_algorithm = True

            def handle_one_request(self) -> None:
                with faults.tracked(self.connection), suppress(OSError, urllib3.exceptions.HTTPError):
                    super().handle_one_request()
                    return
                self.close_connection = True

            def finish(self) -> None:
                with suppress(OSError):  # the other side has gone, or was cut off
                    super().finish()

            def log_message(self, format: str, *args: object) -> None:
                """Silence: the test says what it saw."""

            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length) if length else None
                faults.asked.append((self.command, self.path))
                rule = faults.rule(self.command, self.path)
                if rule == SILENT:
                    faults.closed.wait(PATIENCE)
                    self.close_connection = True
                elif rule > 0:
                    self.refuse(rule)
                else:
                    kept = {
                        key: self.headers[key] for key in ("Content-Type", "Accept") if key in self.headers
                    }
                    self.hand_on(faults.forward(self.command, self.path, kept, body), lose=rule == LOST)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

            def refuse(self, code: int) -> None:
                status = {
                    "kind": "Status",
                    "code": code,
                    "reason": "Test",
                    "message": "because the test says so",
                }
                content = json.dumps(status).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def hand_on(self, answer: urllib3.BaseHTTPResponse, *, lose: bool) -> None:
                with faults.tracked(self.connection, answer):
                    try:
                        self.pump(answer, lose=lose)
                    finally:
                        answer.close()

            def pump(self, answer: urllib3.BaseHTTPResponse, *, lose: bool) -> None:
                if lose:
                    answer.read()
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                self.wfile.flush()
                for chunk in answer.stream(1 << 16):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

        return Handler


def configuration(server: str, user: Mapping[str, object] | None = None) -> dict[str, object]:
    """A kubeconfig that names a server."""
    return {
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "me", "namespace": "mine"}}],
        "users": [{"name": "me", "user": user or {}}],
        "current-context": "it",
    }

"""A receiver of webhooks on loopback that answers as a test wants, for tests."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Hook:
    port: int = 0
    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)
    answer: bytes = b""
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/path-7q"


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that reads only the beginning of an answer is no error."""


@contextmanager
def a_webhook_server() -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            hook.requests.append(
                (self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            )
            self.send_response(hook.status)
            for name, value in {"content-length": str(len(hook.answer)), **hook.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(hook.answer)

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with _Quiet(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        hook.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield hook
        finally:
            server.shutdown()
            thread.join()

"""A receiver of webhooks as a process: it writes each request to a file, durably, before it answers.

    python -m tests.trust.webhook_receiver PORT FILE [REFUSE_EVERY [DIE_AT]]

Each REFUSE_EVERY-th request is recorded and then refused; at request DIE_AT it kills itself between its
record and its answer. So what the file holds has arrived, whether the sender heard of it or not.
"""

import base64
import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from grus.controlplane.notifications.signing import ID, SIGNATURE, TIMESTAMP


class Recording(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    file: int
    count = 0
    refuse_every = 0
    die_at = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name: self.headers.get(name, "") for name in (ID, TIMESTAMP, SIGNATURE)}
        line = json.dumps({"headers": headers, "body": base64.b64encode(body).decode()}) + "\n"
        os.write(self.file, line.encode())
        os.fdatasync(self.file)
        kind = type(self)
        kind.count += 1
        if kind.count == kind.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.send_response(503 if kind.refuse_every and kind.count % kind.refuse_every == 0 else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def main() -> None:
    port, path, *more = sys.argv[1:]
    Recording.file = os.open(Path(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    Recording.refuse_every, Recording.die_at = ([int(word) for word in more] + [0, 0])[:2]
    HTTPServer.request_queue_size = 32
    with HTTPServer(("127.0.0.1", int(port)), Recording) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()

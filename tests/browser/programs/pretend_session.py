"""A session that shows what reaches it, and tries to set cookies that are not its own to set."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from grus.interactive.session import SessionReporter, a_seat

SEAT = a_seat()
PAGE = '<!doctype html><title>pretended</title><pre id="seen">{}</pre>'


class Shows(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        seen = {name.lower(): value for name, value in self.headers.items()}
        allowed = SEAT.opens(seen.pop("authorization", ""))
        body = PAGE.format(json.dumps(seen) if allowed else "without the secret").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Set-Cookie", "grus_session=forged; Path=/")
        self.send_header("Set-Cookie", "own=1; Path=/; Domain=localhost")
        self.send_header("Clear-Site-Data", '"cookies"')
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


server = ThreadingHTTPServer((SEAT.host, 0), Shows)
SessionReporter(SEAT).tell(server.server_address[1], 0.0)
threading.Thread(target=server.serve_forever).start()

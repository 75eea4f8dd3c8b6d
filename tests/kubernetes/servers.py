"""A simulated API server with chosen answers, by plain HTTP."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OK = 200


class Pretend:
    """Answers with the codes that it is given, then with 200; an empty object unless `bodies` has another."""

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.bodies: dict[int, bytes] = {}
        """Bodies of answers by their code."""
        self.asked: list[str] = []
        """The methods of the requests."""
        self.tokens: list[str] = []
        self.taken = ""
        """The only token that is taken; any, if empty."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.asked.append(self.command)
                outer.tokens.append(self.headers.get("Authorization", ""))
                code = outer.codes.pop(0) if outer.codes else OK
                if outer.taken and outer.tokens[-1] != f"Bearer {outer.taken}":
                    code = 401
                content = outer.bodies.get(code, b"{}" if code != 502 else b"<html>a proxy's page</html>")
                self.send_response(code)
                self.send_header("Content-Length", str(len(content)))
                if code == 429:
                    self.send_header("Retry-After", "0")
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

            def log_message(self, format: str, *args: object) -> None:
                """The test looks at `asked`."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

"""A mail server on loopback that keeps what it receives, for tests."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Mailbox:
    port: int = 0
    refusals: dict[str, str] = field(default_factory=dict)
    """Replies to give instead of 250, by the first word of the command."""
    recipients: list[list[str]] = field(default_factory=list)
    mails: list[bytes] = field(default_factory=list)


@contextmanager
def a_mail_server() -> Iterator[Mailbox]:
    box = Mailbox()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._reply("220 ready")
            recipients: list[str] = []
            while line := self.rfile.readline():
                words = line.decode().split()
                verb = words[0].upper()
                if verb in box.refusals:
                    self._reply(box.refusals[verb])
                elif verb == "DATA":
                    self._reply("354 go on")
                    self._data(recipients)
                elif verb == "QUIT":
                    self._reply("221 bye")
                    return
                else:
                    if verb == "RCPT":
                        recipients.append(line.decode().partition("<")[2].partition(">")[0])
                    self._reply("250 ok")

        def _data(self, recipients: list[str]) -> None:
            mail = b""
            while (line := self.rfile.readline()) != b".\r\n":
                mail += line
            box.mails.append(mail)
            box.recipients.append(list(recipients))
            self._reply("250 accepted")

        def _reply(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        box.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield box
        finally:
            server.shutdown()
            thread.join()

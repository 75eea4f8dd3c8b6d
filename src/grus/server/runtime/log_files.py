"""The server's own log: plain lines, `time level where message`, in a file that is rotated."""

import logging
import logging.handlers
import time
from pathlib import Path

LARGEST, KEPT = 10 * 1024 * 1024, 5
"""Bytes of one file; how many old ones stay."""

CLIENTS = ("httpx2", "httpcore2")
"""Loggers that record every forwarded request: pages that people open in their sessions are not for the
log.
"""


class _LineFormatter(logging.Formatter):
    """One line a record (a traceback adds its own), UTC, to the millisecond."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:
        # Text of callers must not be able to look like another line.
        return super().formatMessage(record).replace("\r", "\\r").replace("\n", "\\n")


def log_to(path: Path) -> logging.Handler:
    """Send everything from INFO on to this file; returns the handler to take away at the end."""
    handler = logging.handlers.RotatingFileHandler(path, maxBytes=LARGEST, backupCount=KEPT, encoding="utf-8")
    handler.setFormatter(_LineFormatter())
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for name in CLIENTS:
        logging.getLogger(name).setLevel(logging.WARNING)
    return handler

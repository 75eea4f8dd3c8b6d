"""Address of the last start, so that `grus up` without options listens where clients look for it.

The port is always remembered; host, certificate and key only together, for a server with TLS. The command
line and config.toml go first: a new certificate with its key replaces both and keeps the host.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from grus.sdk.state_paths import GrusPaths
from grus.store.durable_files import write_secret

FILE = "listen.json"


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Address that a server listened on."""

    port: int
    host: str = ""
    """Empty without TLS; then certificate and key are empty too."""
    certificate: str = ""
    key: str = ""


def recall(at: GrusPaths) -> ListenAddress | None:
    """The address of the last start on this state; None before the first, or if the file is damaged."""
    try:
        data = json.loads((at.state / FILE).read_text())
        found = ListenAddress(
            int(data["port"]), *(str(data[name]) for name in ("host", "certificate", "key"))
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if 0 < found.port < 1 << 16 else None


def remember(at: GrusPaths, *, port: int, host: str, certificate: Path | None, key: Path | None) -> None:
    """Keep the address for the next start."""
    found = ListenAddress(port)
    if certificate is not None and key is not None:
        found = ListenAddress(port, host, str(certificate), str(key))
    write_secret(at.state / FILE, (json.dumps(asdict(found)) + "\n").encode())

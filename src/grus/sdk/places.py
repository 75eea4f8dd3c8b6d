"""Where Grus keeps its configuration and its state on this machine, and how a client finds the server.

`GRUS_HOME` overrides both folders; otherwise they follow the XDG base directories. Nothing here creates a
folder or opens a connection.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grus.model.errors import BadInput, Mistake, Unreachable
from grus.sdk.bounded import LARGEST_SETTINGS, read_text


@dataclass(frozen=True, slots=True)
class Places:
    """The two folders, and the files that server and client both know by name."""

    config: Path
    state: Path

    @property
    def config_file(self) -> Path:
        return self.config / "config.toml"

    @property
    def token_file(self) -> Path:
        """The local user's token, mode 0600."""
        return self.config / "token"

    @property
    def server_file(self) -> Path:
        """Written by a running server: {"address", "pid", "started_at"}."""
        return self.state / "server.json"

    @property
    def lock_file(self) -> Path:
        return self.state / "lock"

    @property
    def log_file(self) -> Path:
        return self.state / "server.log"


def places(env: Mapping[str, str] | None = None) -> Places:
    """The folders that this environment names."""
    env = os.environ if env is None else env
    if home := env.get("GRUS_HOME"):
        root = Path(home).expanduser().absolute()
        return Places(config=root, state=root / "state")
    config = env.get("XDG_CONFIG_HOME") or "~/.config"
    state = env.get("XDG_STATE_HOME") or "~/.local/state"
    return Places(
        config=Path(config).expanduser().absolute() / "grus",
        state=Path(state).expanduser().absolute() / "grus",
    )


@dataclass(frozen=True, slots=True)
class Running:
    """What a server says of itself in its server.json."""

    address: str
    pid: int
    started_at: float


def running(at: Places) -> Running | None:
    """The server that last wrote its address here and has not taken it back; it may be dead."""
    try:
        found = json.loads(at.server_file.read_text())
        return Running(str(found["address"]), int(found["pid"]), float(found["started_at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find_address(env: Mapping[str, str], at: Places) -> str:
    """The server's address: GRUS_SERVER, else `[client] server` of config.toml, else the one running here."""
    if address := env.get("GRUS_SERVER") or _client_setting(at, "server"):
        return address.rstrip("/")
    if (server := running(at)) is not None:
        return server.address
    raise Unreachable(
        f"No server is running on {at.state}. Start one with `grus up`, or name one with GRUS_SERVER=http://HOST:PORT."
    )


def find_token(env: Mapping[str, str], at: Places) -> str:
    """The token: GRUS_TOKEN, else `[client] token` of config.toml, else the token file, else ""."""
    if token := env.get("GRUS_TOKEN") or _client_setting(at, "token"):
        return token.strip()
    try:
        return at.token_file.read_text().strip()
    except OSError:
        return ""


def _client_setting(at: Places, name: str) -> str:
    try:
        text = read_text(at.config_file, LARGEST_SETTINGS)
    except OSError:
        return ""
    try:
        value = tomllib.loads(text).get("client", {}).get(name, "")
    except tomllib.TOMLDecodeError as error:
        raise BadInput([Mistake(str(at.config_file), f"is not TOML: {error}")]) from None
    return value if isinstance(value, str) else ""

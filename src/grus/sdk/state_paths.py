"""Paths of Grus's configuration and state on this machine, and the address by which a client finds the
server.

`GRUS_HOME` overrides both folders; otherwise they follow the XDG base directories. Nothing here creates a
folder or opens a connection.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from grus.model.errors import BadInput, Mistake, Unreachable
from grus.sdk.bounded_read import LARGEST_SETTINGS, read_text


@dataclass(frozen=True, slots=True)
class GrusPaths:
    """Folders of configuration and state, and the files that server and client both know by name."""

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
        """Written by a running server; `Running` describes it."""
        return self.state / "server.json"

    @property
    def lock_file(self) -> Path:
        return self.state / "lock"

    @property
    def log_file(self) -> Path:
        return self.state / "server.log"


def places(env: Mapping[str, str] | None = None) -> GrusPaths:
    """Return the folders that this environment names."""
    env = os.environ if env is None else env
    if home := env.get("GRUS_HOME"):
        root = Path(home).expanduser().absolute()
        return GrusPaths(config=root, state=root / "state")
    config = env.get("XDG_CONFIG_HOME") or "~/.config"
    state = env.get("XDG_STATE_HOME") or "~/.local/state"
    return GrusPaths(
        config=Path(config).expanduser().absolute() / "grus",
        state=Path(state).expanduser().absolute() / "grus",
    )


@dataclass(frozen=True, slots=True)
class Running:
    """Facts that a running server writes into its server.json."""

    address: str
    """Address for users and other machines."""
    pid: int
    started_at: float
    local: str = ""
    """Address for clients of this machine, if it differs."""
    certificate: str = ""
    """The server's certificate (PEM), with TLS; clients of this machine trust this one."""

    @property
    def reach(self) -> str:
        """Return the address that a client of this machine connects to."""
        return self.local or self.address


def running(at: GrusPaths) -> Running | None:
    """Return the server that last wrote its address here and has not removed it; it may be dead."""
    try:
        found = json.loads(at.server_file.read_text())
        return Running(
            str(found["address"]),
            int(found["pid"]),
            float(found["started_at"]),
            str(found.get("local", "")),
            str(found.get("certificate", "")),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find_address(env: Mapping[str, str], at: GrusPaths) -> str:
    """Return the server's address: GRUS_SERVER, else `[client] server` of config.toml, else the one running
    here.
    """
    if address := env.get("GRUS_SERVER") or _client_setting(at, "server"):
        return address.rstrip("/")
    if (server := running(at)) is not None:
        return server.address
    raise Unreachable(
        f"No server is running on {at.state}. Start one with `grus up`, or log in to one with `grus login https://HOST:PORT`."
    )


class FoundToken(NamedTuple):
    """Token of a client, and its source as errors name it."""

    secret: str
    source: str


def find_token(env: Mapping[str, str], at: GrusPaths) -> FoundToken:
    """Return the token: GRUS_TOKEN, else `[client] token` of config.toml, else the token file, else ""."""
    if token := env.get("GRUS_TOKEN", "").strip():
        return FoundToken(token, "GRUS_TOKEN")
    if token := _client_setting(at, "token").strip():
        return FoundToken(token, f"[client] token of {at.config_file}")
    return FoundToken(_token_of_file(at.token_file), str(at.token_file))


def _token_of_file(path: Path) -> str:
    """Return the file's text; bytes that are not UTF-8 become U+FFFD, which no token holds."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _client_setting(at: GrusPaths, name: str) -> str:
    try:
        text = read_text(at.config_file, LARGEST_SETTINGS)
    except OSError:
        return ""
    try:
        value = tomllib.loads(text).get("client", {}).get(name, "")
    except tomllib.TOMLDecodeError as error:
        raise BadInput([Mistake(str(at.config_file), f"is not TOML: {error}")]) from None
    return value if isinstance(value, str) else ""

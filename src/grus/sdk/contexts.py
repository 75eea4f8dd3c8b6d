"""Named logins of a user: server, token and certificate authority of each, as kubectl has contexts.

They are in contexts.json of the user's configuration, mode 0600. Nothing here writes it; `grus login` does.
A context is used whole: its token never goes to a server that was named in another way.
"""

import json
import os
import ssl
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from grus.model.errors import BadInput, Mistake, NotFound
from grus.sdk.bounded_read import LARGEST_SETTINGS, read_text
from grus.sdk.state_paths import GrusPaths
from grus.sdk.tls_trust import trusted, trusted_file

VARIABLE = "GRUS_CONTEXT"
OTHERS_MAY = 0o077


@dataclass(frozen=True, slots=True)
class Context:
    """One login."""

    server: str
    token: str = field(default="", repr=False)
    ca: str = ""
    """Certificates to trust for this server, as PEM; empty for those of the system."""


@dataclass(frozen=True, slots=True)
class Contexts:
    """All logins of a user."""

    current: str = ""
    """Name of the current context; empty for none: then the server of this machine is used."""
    by_name: Mapping[str, Context] = field(default_factory=dict)

    def as_json(self) -> str:
        named = {name: asdict(one) for name, one in sorted(self.by_name.items())}
        return json.dumps({"current": self.current, "contexts": named}, indent=2) + "\n"


def contexts_file(at: GrusPaths) -> Path:
    return at.config / "contexts.json"


def read_contexts(at: GrusPaths) -> Contexts:
    """Return the contexts. Raises BadInput for a file that others can read, or that is damaged."""
    path = contexts_file(at)
    try:
        if os.stat(path).st_mode & OTHERS_MAY:
            raise BadInput([Mistake(str(path), "holds tokens and can be read by others; `chmod 600` it")])
        found = json.loads(read_text(path, LARGEST_SETTINGS))
        named = {str(name): _context(one) for name, one in found["contexts"].items()}
        return Contexts(str(found["current"]), named)
    except FileNotFoundError:
        return Contexts()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        rule = f"cannot be read ({error}); remove it and `grus login` again"
        raise BadInput([Mistake(str(path), rule)]) from None


def _context(found: Mapping[str, object]) -> Context:
    return Context(str(found["server"]), str(found.get("token", "")), str(found.get("ca", "")))


def chosen_context(env: Mapping[str, str], at: GrusPaths) -> Context | None:
    """Return the login to use: GRUS_CONTEXT, else the current one unless GRUS_SERVER names a server."""
    name = env.get(VARIABLE, "")
    if not name and env.get("GRUS_SERVER"):
        return None
    known = read_contexts(at)
    name = name or known.current
    if not name:
        return None
    if name not in known.by_name:
        there = ", ".join(sorted(known.by_name)) or "none"
        raise NotFound(
            f"There is no context {name!r}; there are: {there}. `grus login URL --context {name}` makes it."
        )
    return known.by_name[name]


def trust(env: Mapping[str, str], context: Context | None) -> ssl.SSLContext | bool:
    """Return the trust for a server's certificate: the file of GRUS_CA, else the context's, else the
    system's.
    """
    if path := env.get("GRUS_CA"):
        return trusted_file(path)
    if context is None or not context.ca:
        return True
    return trusted(cadata=context.ca)

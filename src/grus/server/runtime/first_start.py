"""The first start of a server: an administrator and a token for it, so that somebody can make all the others.

The secret is 256 bits of chance, kept in a file of mode 0600 and printed nowhere; the store has its SHA-256.
"""

import hashlib
import re
import secrets
from pathlib import Path

from grus.model.errors import BadInput, Mistake
from grus.model.identifiers import UserName
from grus.model.interfaces import TOKENS, USERS, AccessRole, Store, Token, User
from grus.store.durable_files import write_secret

ADMIN = UserName("admin")
PREFIX = "grus_"
"""Lets scanners for leaked secrets know one when they see it."""
_SECRET = re.compile(PREFIX + r"[A-Za-z0-9_-]{43}", re.ASCII)


def ensure_admin(store: Store, token_file: Path, now: float) -> str | None:
    """The new administrator's secret at the first start; None when there are tokens already."""
    if store.find(TOKENS):
        return None
    secret = _kept(token_file) or _made(token_file)
    store.put(USERS, User(name=ADMIN, role=AccessRole.ADMIN)).result()
    digest = hashlib.sha256(secret.encode()).hexdigest()
    store.put(TOKENS, Token(digest=digest, user=ADMIN, label="first start", created_at=now)).result()
    return secret


def _kept(path: Path) -> str:
    """The secret of an earlier state of this server; "" if there is no file."""
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        return ""
    if not _SECRET.fullmatch(text):
        rule = "holds a token that this server did not make; move the file away, then a new one is made"
        raise BadInput([Mistake(str(path), rule)])
    return text


def _made(path: Path) -> str:
    secret = PREFIX + secrets.token_urlsafe(32)
    write_secret(path, f"{secret}\n".encode())
    return secret

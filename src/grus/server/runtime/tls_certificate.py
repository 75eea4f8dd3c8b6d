"""The server's TLS certificate, read and checked before the server starts.

Each problem is an error that names the file and the fix: no file, no permission, no PEM, an encrypted key, a
key of another certificate, expired, names that do not include the host. The check is a TLS handshake in
memory, so that what clients will refuse is refused here.
"""

import getpass
import ipaddress
import re
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grus.model.errors import BadInput, Mistake
from grus.sdk.tls_trust import pinned

CERTIFICATE, KEY = "--tls-cert", "--tls-key"
MISMATCH = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""OpenSSL's words for a key that was not made for the certificate."""
_FIRST = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.S)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Facts of a certificate that a server presents."""

    pem: str
    """The certificate of the server itself, without its chain."""
    names: tuple[str, ...]
    """Host names and addresses that it is valid for (subjectAltName)."""
    expires_at: float

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names that a client can write in an address, host names first; wildcards are none."""
        plain = [name for name in self.names if "*" not in name]
        return tuple(sorted(plain, key=is_address))

    def covers(self, host: str) -> bool:
        """True if clients that ask for this host accept the certificate."""
        host = host.lower().strip("[]")
        if is_address(host):
            wanted = ipaddress.ip_address(host)
            return any(is_address(name) and ipaddress.ip_address(name) == wanted for name in self.names)
        rest = host.partition(".")[2]
        return any(name.lower() == host or (rest and name.lower() == f"*.{rest}") for name in self.names)


def read_certificate(certificate: Path, key: Path, now: float) -> Certificate:
    """Read both files and check them. Raises BadInput with what is wrong and what to do."""
    text = _text(certificate, CERTIFICATE)
    _text(key, KEY)
    found = _FIRST.search(text)
    if found is None:
        raise _bad(CERTIFICATE, "holds no PEM certificate (-----BEGIN CERTIFICATE-----)", certificate)
    facts = _handshake(_server_side(certificate, key), _client_side(found[0], certificate), certificate)
    begins, ends = (ssl.cert_time_to_seconds(facts[name]) for name in ("notBefore", "notAfter"))
    if now > ends:
        raise _bad(CERTIFICATE, f"expired on {_day(ends)}: clients refuse it; renew it", certificate)
    if now < begins:
        rule = f"is valid from {_day(begins)} on: clients refuse it before; check the clock of this machine"
        raise _bad(CERTIFICATE, rule, certificate)
    names = tuple(name for kind, name in facts.get("subjectAltName", ()) if kind in ("DNS", "IP Address"))
    if not names:
        rule = "names no host (subjectAltName): clients refuse it; make one with the name of this server"
        raise _bad(CERTIFICATE, rule, certificate)
    return Certificate(found[0], names, ends)


def _text(file: Path, option: str) -> str:
    try:
        return file.read_text(errors="replace")
    except FileNotFoundError:
        raise _bad(option, "names no file; check the path, or make one (docs/team-server.md)", file) from None
    except PermissionError:
        rule = f"cannot be read by the user {_user()}: give that user the right to read it"
        raise _bad(option, rule, file) from None
    except OSError as error:
        raise _bad(option, f"cannot be read: {error.strerror}", file) from None


def _server_side(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    asked: list[bool] = []

    def password() -> str:
        asked.append(True)
        return "-"

    try:
        context.load_cert_chain(certificate, key, password)
    except ssl.SSLError as error:
        if asked:
            rule = "is encrypted: nobody can type its passphrase; write it without one (openssl pkey)"
        elif error.reason in MISMATCH:
            rule = f"does not belong to the certificate {certificate}: give the key it was made with"
        elif "-----BEGIN" not in _text(key, KEY):
            rule = "holds no PEM key (-----BEGIN PRIVATE KEY-----)"
        else:
            rule = f"cannot be used with the certificate {certificate}: {error.reason or error}"
        raise _bad(KEY, rule, key) from None
    return context


def _client_side(pem: str, file: Path) -> ssl.SSLContext:
    try:
        return pinned(pem)
    except ssl.SSLError as error:
        raise _bad(CERTIFICATE, f"holds no usable certificate: {error.reason or error}", file) from None


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext, file: Path) -> dict[str, Any]:
    """Facts that a client learns of the certificate. Raises BadInput if the two cannot agree."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(to_client, to_server, server_side=False)
    answering = server.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(10):
            done = [_step(asking), _step(answering)]
            if all(done):
                break
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or str(error)
        raise _bad(CERTIFICATE, f"is refused by clients: {why}", file) from None
    return dict(asking.getpeercert() or {})


def _step(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _bad(option: str, rule: str, file: Path) -> BadInput:
    return BadInput([Mistake(option, rule, str(file))])


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "of this process"


def _day(moment: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(moment))


def is_address(name: str) -> bool:
    """True for an IP address, False for a name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True

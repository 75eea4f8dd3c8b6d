"""TLS contexts that trust a certificate of one's own: of the server of this machine, or the one of GRUS_CA.

A server writes its own certificate into server.json, which only its account can read. A client there compares
with exactly that one: the authority, the name in it and its dates do not matter.
"""

import ssl

from grus.model.errors import BadInput, Mistake

NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME of OpenSSL: an expired certificate must not lock its owner out of `grus down`."""


def pinned(certificate: str = "") -> ssl.SSLContext:
    """Context for a client that accepts this certificate (PEM) and no other; `pin` adds one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags = ssl.VerifyFlags(
        context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN | NO_CHECK_TIME
    )
    pin(context, certificate)
    return context


def pin(context: ssl.SSLContext, certificate: str) -> None:
    """Accept this certificate too; a server that restarts may have a new one."""
    if certificate:
        context.load_verify_locations(cadata=certificate)


def trusted_file(path: str) -> ssl.SSLContext:
    """Context for the file of GRUS_CA."""
    try:
        return trusted(cafile=path)
    except OSError as error:  # ssl.SSLError is one
        rule = f"must name a file with certificates (PEM): {error.strerror or error}"
        raise BadInput([Mistake("GRUS_CA", rule, path)]) from None


def trusted(*, cafile: str | None = None, cadata: str | None = None) -> ssl.SSLContext:
    """Context that trusts these certificates: an authority's, or the server's own."""
    context = ssl.create_default_context(cafile=cafile, cadata=cadata)
    context.verify_flags = ssl.VerifyFlags(context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN)
    return context

"""Signatures of webhooks, by the Standard Webhooks specification: HMAC-SHA256 of `id.timestamp.body`. Pure.

Receivers can check them with any library of that specification, or with a few lines (docs/notifications.md).
"""

import base64
import binascii
import hashlib
import hmac

PREFIX = "whsec_"
"""Prefix of a secret that is written in base64."""
SHORTEST = 16
"""Bytes of a secret."""
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


def key_of(secret: str) -> bytes:
    """Return the key that a secret encodes. Raises ValueError, without the secret in its text."""
    if secret.startswith(PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except binascii.Error:
            raise ValueError(f"must be base64 after {PREFIX}") from None
    else:
        key = secret.encode()
    if len(key) < SHORTEST:
        raise ValueError(f"must have at least {SHORTEST} bytes; `openssl rand -base64 32` makes one")
    return key


def signature(key: bytes, id_: str, timestamp: int, body: bytes) -> str:
    signed = b".".join((id_.encode(), str(timestamp).encode(), body))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def headers(key: bytes, id_: str, now: float, body: bytes) -> dict[str, str]:
    """The three headers; the timestamp is that of this sending, so that receivers can refuse old ones."""
    timestamp = int(now)
    return {ID: id_, TIMESTAMP: str(timestamp), SIGNATURE: signature(key, id_, timestamp, body)}

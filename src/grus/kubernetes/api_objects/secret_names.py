"""Names of the Secrets that jobs may have. Pure.

The secret NAME of a job is the key `value` of the Secret `grus-secret-NAME` in the job's own namespace. A job
can name no other Secret of the namespace.
"""

from typing import Any

SECRET_PREFIX = "grus-secret-"  # noqa: S105 - the beginning of a name
KEY = "value"


def secret_ref(name: str) -> dict[str, Any]:
    """The source of a variable that holds the secret of this name."""
    return {"secretKeyRef": {"name": f"{SECRET_PREFIX}{name}", "key": KEY}}

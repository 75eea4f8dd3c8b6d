"""Secrets that jobs may have: their names and form in a cluster. Pure.

The secret NAME of a job is the key `value` of the Secret `grus-secret-NAME` in the job's own namespace. A job
can name no other Secret, whatever else the namespace holds.
"""

import base64
from typing import Any

from grus.kubernetes.installation import PART_OF
from grus.kubernetes.names import PREFIX

Object = dict[str, Any]

SECRET_PREFIX = "grus-secret-"  # noqa: S105 - the beginning of a name
KEY = "value"
SECRET = f"{PREFIX}secret"
"""Label: the secret's name, as jobs say it."""


def object_name(name: str) -> str:
    """The Secret of a job's secret; names of secrets are DNS labels of up to 63 characters."""
    return f"{SECRET_PREFIX}{name}"


def secret_ref(name: str) -> Object:
    """The source of a variable."""
    return {"secretKeyRef": {"name": object_name(name), "key": KEY}}


def secret_object(name: str, value: str) -> Object:
    """The Secret as Grus writes it."""
    return {
        "metadata": {"name": object_name(name), "labels": {SECRET: name, PART_OF: "grus"}},
        "type": "Opaque",
        "data": {KEY: base64.b64encode(value.encode()).decode()},
    }

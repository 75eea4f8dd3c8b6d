"""Names of things, as types: an id of one kind cannot be passed where another is meant."""

import re
from typing import NewType

JobId = NewType("JobId", str)
QueueName = NewType("QueueName", str)
UserName = NewType("UserName", str)
NodeId = NewType("NodeId", str)
DeviceId = NewType("DeviceId", str)
WorkerId = NewType("WorkerId", str)

ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case: no letter that looks like a digit."""
_JOB_ID = re.compile(f"j[{ID_ALPHABET}]{{10}}", re.ASCII)
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}", re.ASCII)
NAME_RULE = "must be 1 to 63 small letters, digits and hyphens, and start with a letter or digit"


def job_id(entropy: int) -> JobId:
    """An opaque id out of 50 random bits; the bits are passed in, so that the caller owns chance."""
    return JobId("j" + "".join(ID_ALPHABET[(entropy >> (5 * i)) & 31] for i in range(10)))


def looks_like_job_id(text: str) -> bool:
    return _JOB_ID.fullmatch(text) is not None

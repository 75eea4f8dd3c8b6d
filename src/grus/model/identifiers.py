"""Names of things, as types: an id of one kind cannot be passed where another is meant."""

from typing import NewType

JobId = NewType("JobId", str)
QueueName = NewType("QueueName", str)
UserName = NewType("UserName", str)
NodeId = NewType("NodeId", str)
DeviceId = NewType("DeviceId", str)
WorkerId = NewType("WorkerId", str)

ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case: no letter that looks like a digit."""


def job_id(entropy: int) -> JobId:
    """An opaque id out of 50 random bits; the bits are passed in, so that the caller owns chance."""
    return JobId("j" + "".join(ID_ALPHABET[(entropy >> (5 * i)) & 31] for i in range(10)))

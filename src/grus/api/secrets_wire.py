"""Secrets, in and out: a value comes in and never leaves."""

from typing import Annotated

from grus.api import fields as f
from grus.api.out import Out
from grus.api.rules import Strict


class SecretIn(Strict):
    """A value to keep."""

    value: Annotated[str, f.judged(lambda value: value)]
    """Judged by the store, whose messages do not repeat it."""


class SecretOut(Out):
    name: str
    set_at: str
    """When its value was last set."""

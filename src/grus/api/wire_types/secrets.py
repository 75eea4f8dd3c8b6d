"""Wire models of secrets, in and out: a value comes in and never leaves."""

from typing import Annotated

from grus.api.parsing import fields as f
from grus.api.parsing.validation_errors import Strict
from grus.api.wire_types.base import Out, Timestamp


class SecretIn(Strict):
    """A value to keep."""

    value: Annotated[str, f.judged(lambda value: value)]
    """Checked by the store, whose messages do not repeat it."""


class SecretOut(Out):
    name: str
    set_at: Timestamp
    """Time at which its value was last set."""

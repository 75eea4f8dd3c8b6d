"""Base class of all data that leaves the server."""

from pydantic import BaseModel, ConfigDict


class Out(BaseModel):
    """Data that leaves the server. A client of an older version ignores fields that it does not know."""

    model_config = ConfigDict(extra="ignore", frozen=True)

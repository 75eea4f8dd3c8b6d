"""What everything that leaves the server has in common."""

from pydantic import BaseModel, ConfigDict


class Out(BaseModel):
    """What leaves the server. A client of an older version passes over fields that it does not know."""

    model_config = ConfigDict(extra="ignore", frozen=True)

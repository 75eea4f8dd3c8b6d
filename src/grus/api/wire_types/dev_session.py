"""Wire models of development sessions."""

from pydantic import BaseModel


class SessionOut(BaseModel):
    """Access to a session, for its owner."""

    url: str
    """URL that opens it in a browser, once and within a minute."""
    origin: str
    """Scheme, host and port that serve only this session."""

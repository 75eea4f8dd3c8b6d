"""Development sessions on the wire."""

from pydantic import BaseModel


class SessionOut(BaseModel):
    """The way into a session, for its owner."""

    url: str
    """Opens it in a browser, once and within a minute."""
    origin: str
    """Scheme, host and port under which the session is reached, and nothing else is."""

"""Health of the control loop: its term, passes and troubles."""

from dataclasses import dataclass


@dataclass(slots=True)
class ControlLoopHealth:
    """Health of the loop, for users and metrics."""

    epoch: int = 0
    passes: int = 0
    seconds: float = 0.0
    """Length of the last pass."""
    troubles: int = 0
    """Passes in a row that met trouble."""
    trouble: str = ""
    stopped: str = ""
    """Why the loop no longer acts; empty while it does."""

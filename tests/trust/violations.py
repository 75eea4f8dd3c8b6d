"""A promise that was broken, as a value and as the exception that carries it out of whatever was going on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """Which invariant, and what was seen.

    S1 … S10 and L1 … L4; PASS is a pass that fails by itself, REST one that never comes to rest, CHECK a sum
    that was kept wrongly by the checks themselves.
    """

    invariant: str
    text: str


class Broken(BaseException):
    """Not an Exception: nothing in the control plane may catch it."""

    def __init__(self, invariant: str, text: str) -> None:
        super().__init__(f"{invariant}: {text}")
        self.violation = Violation(invariant, text)


class Killed(BaseException):
    """The control plane dies here. Not an Exception either."""

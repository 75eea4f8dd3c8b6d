"""What a planted bug is: real functions swapped for ones that have the bug, for as long as somebody looks.

A swap is given the original, so that a plant says only what is wrong with it. A name that is not there any
more raises: a plant that changes nothing proves nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

SEEDS = "simulation:0-5"
"""Histories of the whole control plane; which of them catches a bug may change with every change of Grus."""


@dataclass(frozen=True, slots=True)
class Swap:
    """One attribute, and how its replacement is made of it."""

    owner: Any
    """A module or a class."""
    name: str
    make: Callable[[Any], Any]

    def original(self) -> Any:
        return getattr(self.owner, self.name)


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug that another system has had, as it would look here."""

    name: str
    what: str
    report: str
    """Where it was told: the address of an issue or a change on GitHub, or the number of a CVE."""
    swaps: tuple[Swap, ...]
    proofs: tuple[str, ...]
    """What is expected to catch it, the one that is known to do it first (see `proving`)."""
    everywhere: bool = True
    """Whether the whole control plane has it, so that the simulation is asked too."""

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            for swap in self.swaps:
                made = swap.make(swap.original())
                stack.enter_context(patch.object(swap.owner, swap.name, made))
            yield


def always(value: Any) -> Callable[[Any], Any]:
    """A function, whatever it was, that gives this."""
    return lambda _: lambda *_args, **_options: value


def instead(value: Any) -> Callable[[Any], Any]:
    """Another value in the place of the old one."""
    return lambda _: value


def issue(repository: str, number: int) -> str:
    return f"https://github.com/{repository}/issues/{number}"


def change(repository: str, number: int) -> str:
    return f"https://github.com/{repository}/pull/{number}"

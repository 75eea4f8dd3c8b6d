"""Observations of a forward pass, node by node; `node_observer` fills them in. Values only."""

from dataclasses import dataclass


@dataclass(slots=True)
class ObservedCall:
    """One node that calls a function."""

    name: str
    inputs: tuple[str, ...]
    """Nodes whose results are among its arguments."""
    tensors: tuple[str, ...] = ()
    """Parameters, buffers and constants that it reads, also by way of a view: the names in the program."""
    leaves: tuple[str, ...] = ()
    """Tensors of the batch that it reads."""
    owners: tuple[str, ...] = ()
    """Earlier nodes that made the storage of its result; none if it is new."""
    changes: tuple[str, ...] = ()
    """Nodes whose storage it changes in place."""
    written: tuple[str, ...] = ()
    """Parameters, buffers, constants and tensors of the batch that it changes."""
    output: int = 0
    """Bytes of its result."""
    kept: bool = False
    """Its own new storage is kept for the backward pass."""
    own: int = 0
    """Bytes of its new storage."""
    extra: int = 0
    """Bytes that it keeps for the backward pass besides results and weights: masks, statistics."""
    temporary: int = 0
    """Bytes of tensors that lived only while it ran, at most."""
    gradient: bool = False
    """A gradient flows through it."""


@dataclass(frozen=True, slots=True)
class Observed:
    """All nodes in the order of the program."""

    nodes: tuple[ObservedCall, ...]
    result: str
    """Node that returns the loss."""
    trained: frozenset[str] = frozenset()
    """Parameters that get a gradient, by their names in the program."""

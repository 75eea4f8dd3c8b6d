"""The operators of a model and the tensors that flow between them, with what they cost. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from grus.model.errors import BadInput, Mistake


@dataclass(frozen=True, slots=True)
class Op:
    """One operator. All of its consumers read the same output."""

    name: str
    seconds: float
    """Seconds on a device of speed 1."""
    permanent: int = 0
    """Bytes held for the whole step: weights, their gradients, optimizer state, saved activations."""
    temporary: int = 0
    """Bytes held only while it runs, its output not among them; none when it takes no time (a view)."""
    output: int = 0
    """Bytes of the tensor that its consumers read."""
    saved: bool = False
    """The output is among the permanent bytes (it is kept for the backward pass)."""
    group: str = ""
    """Operators with the same group share a device: tied weights, a parameter and its gradient."""
    backward: bool = False
    """Belongs to the backward pass: in a pipeline its data flows from later stages to earlier ones."""
    kept: int = 0
    """Part of the permanent bytes that belongs to one
    micro-batch (saved activations); the rest exists once.
    """

    @property
    def passing(self) -> int:
        """Bytes of output that are released once the last consumer ran."""
        return 0 if self.saved else self.output


@dataclass(frozen=True, slots=True)
class OpGraph:
    """Operators, numbered from 0, and edges (producer, consumer) without a cycle or a repetition."""

    ops: tuple[Op, ...]
    edges: tuple[tuple[int, int], ...]
    inputs: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    """Operators whose outputs each operator reads."""
    consumers: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    topological: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Every operator after its inputs; of several that could follow, the lowest number."""

    def __post_init__(self) -> None:
        mistakes = _mistakes(self.ops, self.edges)
        if mistakes:
            raise BadInput(mistakes)
        inputs: list[list[int]] = [[] for _ in self.ops]
        consumers: list[list[int]] = [[] for _ in self.ops]
        for source, target in self.edges:
            inputs[target].append(source)
            consumers[source].append(target)
        object.__setattr__(self, "inputs", tuple(map(tuple, inputs)))
        object.__setattr__(self, "consumers", tuple(map(tuple, consumers)))
        order = first_order(inputs, consumers)
        if len(order) < len(self.ops):
            stuck = self.ops[min(set(range(len(self.ops))) - set(order))].name
            raise BadInput([Mistake("edges", "must not form a cycle", f"a cycle before {stuck}")])
        object.__setattr__(self, "topological", tuple(order))


def first_order(inputs: Sequence[Sequence[int]], consumers: Sequence[Sequence[int]]) -> list[int]:
    """Return a topological order, lowest number first; operators behind a cycle are left out."""
    missing = [len(one) for one in inputs]
    ready = [number for number, count in enumerate(missing) if not count]
    heapify(ready)
    order = []
    while ready:
        number = heappop(ready)
        order.append(number)
        for consumer in consumers[number]:
            missing[consumer] -= 1
            if not missing[consumer]:
                heappush(ready, consumer)
    return order


def _mistakes(ops: Sequence[Op], edges: Sequence[tuple[int, int]]) -> list[Mistake]:
    found = [] if ops else [Mistake("ops", "at least one operator is needed")]
    for op in ops:
        if not 0 <= op.seconds < float("inf"):
            found.append(Mistake(op.name, "seconds must be a finite number from 0", str(op.seconds)))
        if min(op.permanent, op.temporary, op.output) < 0:
            found.append(Mistake(op.name, "bytes must not be negative"))
        if op.temporary and not op.seconds:
            found.append(Mistake(op.name, "without any time there are no temporary bytes", str(op.temporary)))
        if op.saved and op.output > op.permanent:
            found.append(Mistake(op.name, "a saved output must be among the permanent bytes"))
        if not 0 <= op.kept <= op.permanent:
            found.append(Mistake(op.name, "kept bytes must be among the permanent ones", str(op.kept)))
    for edge in edges:
        if not all(0 <= end < len(ops) for end in edge):
            found.append(Mistake("edges", "both ends must be operators", str(edge)))
    if len(set(edges)) < len(edges):
        found.append(Mistake("edges", "must not be repeated"))
    return found

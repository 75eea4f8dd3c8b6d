"""What a training really takes on the CPU, by PyTorch's profiler: shares no code with `grus.estimation`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile

from grus.estimation.fake_tensor_trace import STEPS
from grus.estimation.training_definition import Training

CONVOLUTIONS = {"aten::convolution", "aten::convolution_backward"}


@dataclass(frozen=True, slots=True)
class Truth:
    """The most bytes that PyTorch held at once."""

    all: int
    without_scratch: int
    """Leaving out what a convolution took and gave back before it ended: on a GPU other kernels run."""


@dataclass(frozen=True, slots=True)
class _Change:
    """Memory taken (above 0) or given back (below 0), and the end of the convolution around it, if any."""

    at: int
    pointer: int
    size: int
    until: int | None


def real_peak(training: Training) -> Truth:
    """Over the first steps, with the optimizer's GPU default."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        _run(training)
    assert seen.profiler is not None
    roots = seen.profiler.kineto_results.experimental_event_tree()
    changes = sorted(_changes(roots), key=lambda change: change.at)
    scratch = _scratch(changes)
    return Truth(
        _peak(change.size for change in changes),
        _peak(change.size for number, change in enumerate(changes) if number not in scratch),
    )


def _changes(roots: list[Any]) -> Iterator[_Change]:
    """Every change of the tree of events."""
    waiting: list[tuple[Any, int | None]] = [(root, None) for root in roots]
    while waiting:
        event, until = waiting.pop()
        if event.tag == _EventType.Allocation:
            fields = event.extra_fields
            yield _Change(event.start_time_ns, fields.ptr, fields.alloc_size, until)
        elif until is None and event.name in CONVOLUTIONS:
            until = event.end_time_ns
        waiting += [(child, until) for child in event.children]


def _scratch(changes: list[_Change]) -> set[int]:
    """Numbers of the changes that belong to memory which did not outlive its convolution."""
    taken: dict[int, int] = {}
    found: set[int] = set()
    for number, change in enumerate(changes):
        if change.size > 0:
            taken[change.pointer] = number
            continue
        birth = taken.pop(change.pointer, None)
        if birth is not None and (until := changes[birth].until) is not None and change.at <= until:
            found |= {birth, number}
    return found


def _peak(sizes: Iterator[int]) -> int:
    now = most = 0
    for size in sizes:
        now += size
        most = max(most, now)
    return most


def _run(training: Training) -> None:
    model = training.model().train()
    optimizer = training.optimizer(model.parameters())
    for group in optimizer.param_groups:
        group["foreach"] = True
    for _ in range(STEPS):
        batch = training.batch(training.size)
        optimizer.zero_grad()
        training.loss(model, batch).backward()
        optimizer.step()
    del batch

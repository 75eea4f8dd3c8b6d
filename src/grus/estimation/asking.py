"""What `grus estimate` asks of a child process: the user's training traced, and estimated for types of GPUs.

Answers are values that JSON knows. Needs torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grus.estimation.child import Tell
from grus.estimation.dataless import untouched
from grus.estimation.elsewhere import elsewhere
from grus.estimation.entry import load
from grus.estimation.estimate import Biggest, Estimate, biggest, estimated
from grus.estimation.gpus import GpuKind
from grus.estimation.lives import Trace
from grus.estimation.tracing import trace
from grus.estimation.training import Training
from grus.model.errors import BadInput


@dataclass(frozen=True, slots=True)
class Answer:
    """About one training."""

    parameters: int
    estimates: tuple[Estimate, ...]
    """One a type of GPU, in the order asked for."""
    biggest: tuple[Biggest, ...]
    """The same; empty if nobody asked."""


def estimate(
    tell: Tell, target: str, gpus: Sequence[Mapping[str, object]], size: int | None, search: bool
) -> Answer:
    """The training that `target` names in this folder; with `search`, the biggest batch of each type too."""
    with elsewhere():
        tell(f"running {target}")
        with untouched():
            training = load(target, Path.cwd(), size)
        kinds = [GpuKind(**gpu) for gpu in gpus]  # type: ignore[arg-type]  # it was one when it was sent
        traces = Traces(training, tell)
        found = [estimated(traces.at(training.size, kind), kind, training.size) for kind in kinds]
        searched = [traces.biggest(kind) for kind in kinds] if search else []
        learned = traces.at(training.size, kinds[0]).parameters
    return Answer(learned, tuple(found), tuple(searched))


class Traces:
    """The traces of one training, each made once."""

    def __init__(self, training: Training, tell: Tell) -> None:
        self._training = training
        self._tell = tell
        self._known: dict[tuple[int, bool], Trace] = {}

    def at(self, size: int, gpu: GpuKind) -> Trace:
        key = (size, gpu.virtual)
        if key not in self._known:
            self._tell(f"tracing a batch of {size}")
            self._known[key] = trace(self._training, size, on_a_gpu=not gpu.virtual)
        return self._known[key]

    def biggest(self, gpu: GpuKind) -> Biggest:
        def upper(size: int) -> int | None:
            try:
                found = estimated(self.at(size, gpu), gpu, size)
            except (BadInput, RuntimeError, ValueError):  # some models cannot take one sample, or very many
                if size == self._training.size:
                    raise
                return None
            return found.upper if found.fits else max(found.upper, gpu.memory + 1)

        return biggest(upper, gpu.memory, self._training.size)

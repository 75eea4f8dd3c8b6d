"""Ways to hold a training on a pool, for a job that leaves its size to Grus; `grus submit` asks a child.

As it is on one GPU comes first. Where that takes most of a GPU, or more than there is, other ways are looked
at that give the same result for more time: `checkpoint`, `offload`. Ways that change the result (`bf16`, …)
are for people to choose. Needs torch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grus.api.rules import read
from grus.api.train_in import TrainIn
from grus.estimation.child import Tell
from grus.estimation.dataless import untouched
from grus.estimation.elsewhere import elsewhere
from grus.estimation.entry import load
from grus.estimation.estimate import Estimate, estimated
from grus.estimation.gpus import GpuKind
from grus.estimation.lighter import lighten
from grus.estimation.section import training_of
from grus.estimation.tracing import trace
from grus.estimation.training import Training
from grus.model.errors import BadInput, Mistake
from grus.model.strategies import Strategy, clashes, ordered, parse
from grus.model.ways import Way

ROOMY = 0.5
"""A training whose upper bound is below this part of the largest GPU needs no other way."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a child says."""

    batch: int = 0
    ways: tuple[Way, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    """Of the ways with one GPU, each on the type of GPU where it takes the most."""
    notes: tuple[str, ...] = ()
    """Why some way is none."""
    mistakes: tuple[Mistake, ...] = ()
    """Functions that the job names and that are not there: it cannot run."""


def find(
    tell: Tell, section: Mapping[str, Any] | None, target: str, pool: Sequence[Mapping[str, Any]]
) -> Found:
    """Of a `train:` section, or of the training that `target` names for a script of its own.

    `pool` has a type of GPU and how many of it there are, for each type. A script is held as it is.
    """
    kinds = [(GpuKind(**one["gpu"]), int(one["count"])) for one in pool]
    with elsewhere():
        if section is None:
            tell(f"running {target}")
            with untouched():
                training = load(target, Path.cwd())
            return _Looking(tell, training, kinds, ()).found([()])
        given = read(TrainIn, section, whole="train")
        tell(f"running {given.make or given.model}")
        try:
            with untouched():
                training = training_of(given, Path.cwd())
        except BadInput as error:
            if error.__cause__ is not None:  # it is there, but raises here: it may not on a GPU's node
                raise
            return Found(mistakes=tuple(error.mistakes))
        words = parse(given.strategy or "")
        return _Looking(tell, training, kinds, words).found(_more(words))


def _more(words: Sequence[Strategy]) -> list[tuple[Strategy, ...]]:
    """Strategies to try one after the other beside those that are asked for."""
    tried: list[tuple[Strategy, ...]] = [(), (Strategy.CHECKPOINT,)]
    return [more for more in tried if not set(more) & set(words) and not clashes((*words, *more))]


class _Looking:
    """One training, looked at in several ways."""

    def __init__(
        self,
        tell: Tell,
        training: Training,
        kinds: Sequence[tuple[GpuKind, int]],
        words: tuple[Strategy, ...],
    ) -> None:
        self._tell = tell
        self._training = training
        self._kinds = kinds
        self._words = words
        self._most = max(kind.memory for kind, _ in kinds)

    def found(self, tried: Iterable[tuple[Strategy, ...]]) -> Found:
        estimates: list[Estimate] = []
        for more in tried:
            estimates.append(self._on_one(ordered((*self._words, *more))))
            if estimates[-1].upper <= ROOMY * self._most:
                break
        fastest = estimates[0].seconds
        ways = tuple(Way(1, one.upper, one.how, _relative(fastest, one.seconds)) for one in estimates)
        return Found(self._training.size, ways, tuple(estimates))

    def _on_one(self, words: tuple[Strategy, ...]) -> Estimate:
        """On the type of GPU where it takes the most; what is slower for it counts as slow."""
        self._tell(f"tracing a batch of {self._training.size}" + (f", {' '.join(words)}" if words else ""))
        training = lightened(self._training, words)
        needed = {not kind.virtual for kind, _ in self._kinds}
        made = {on_a_gpu: trace(training, on_a_gpu=on_a_gpu) for on_a_gpu in needed}
        how = tuple(word.value for word in words if word is not Strategy.PLAIN)
        return max(
            (estimated(made[not kind.virtual], kind, training.size, how=how) for kind, _ in self._kinds),
            key=lambda one: one.upper,
        )


def lightened(training: Training, words: Iterable[Strategy]) -> Training:
    """The training whose model keeps or computes less, as these words say."""
    words = tuple(words)

    def model() -> Any:
        made = training.model()
        lighten(made, words)
        return made

    return replace(training, model=model) if words else training


def _relative(fastest: float, seconds: float) -> float:
    return round(fastest / seconds, 4) if seconds > 0 else 1.0

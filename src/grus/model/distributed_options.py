"""Strategy names for a training: the words that a user writes, and the combinations allowed.

    strategy: bf16 checkpoint

A training has one strategy that divides it among its workers (`plain`, `ddp`, `zero1`, `zero2`, `fsdp` or
`split`; several workers without such a word are `ddp`) and any of the others beside it. This module has the
words only: `grus.estimation.strategy_costs` computes the effect of each on a training's memory, and
`grus.train` applies it.
"""

import re
from collections.abc import Iterable
from enum import StrEnum

from grus.model.errors import BadInput, Mistake


class Strategy(StrEnum):
    """Strategy, in the order in which strategies are written."""

    PLAIN = "plain"
    DDP = "ddp"
    ZERO1 = "zero1"
    ZERO2 = "zero2"
    FSDP = "fsdp"
    SPLIT = "split"
    BF16 = "bf16"
    CHECKPOINT = "checkpoint"
    OFFLOAD = "offload"
    FP16_GRADIENTS = "fp16-gradients"
    POWERSGD = "powersgd"

    @property
    def sentence(self) -> str:
        """Description of its effect, for people."""
        return _SENTENCES[self]


_SENTENCES = {
    Strategy.PLAIN: "one worker computes everything and holds everything",
    Strategy.DDP: "each worker holds all and computes a part of the batch; gradients are summed",
    Strategy.ZERO1: "as ddp, but each worker holds only its part of the optimizer's state",
    Strategy.ZERO2: "as zero1, and each worker keeps only its part of the gradients",
    Strategy.FSDP: "as zero2, and of the weights; each block gathers its own while it is computed (ZeRO 3)",
    Strategy.SPLIT: "each worker holds and computes its own part of the model",
    Strategy.BF16: "matrix products in bfloat16, weights and optimizer in float32",
    Strategy.CHECKPOINT: "activations inside of blocks are computed again instead of being kept",
    Strategy.OFFLOAD: "the optimizer and its state are in main memory; the host does the update",
    Strategy.FP16_GRADIENTS: "gradients travel as float16: half the bytes",
    Strategy.POWERSGD: "gradients travel as products of two thin matrices; what is left out follows later",
}

HOLDING = frozenset(
    {Strategy.PLAIN, Strategy.DDP, Strategy.ZERO1, Strategy.ZERO2, Strategy.FSDP, Strategy.SPLIT}
)
"""Strategies that divide the training among its workers: exactly one applies."""
SHARDED = frozenset({Strategy.ZERO1, Strategy.ZERO2, Strategy.FSDP})
"""No worker has all of the state."""
COMPRESSING = frozenset({Strategy.FP16_GRADIENTS, Strategy.POWERSGD})
"""Strategies that send fewer bytes of gradients; at most one of these."""
ALTERING = COMPRESSING | {Strategy.BF16}
"""The numbers are no longer those of the plain training, but close."""

_APART = {
    (Strategy.ZERO1, Strategy.OFFLOAD): "both move the optimizer's state; say zero2 offload",
    (Strategy.PLAIN, Strategy.FP16_GRADIENTS): "one worker exchanges no gradients",
    (Strategy.PLAIN, Strategy.POWERSGD): "one worker exchanges no gradients",
    (Strategy.ZERO2, Strategy.FP16_GRADIENTS): "gradients are cut up on their way; say bf16, or ddp",
    (Strategy.ZERO2, Strategy.POWERSGD): "gradients are cut up on their way; say ddp or zero1",
    (Strategy.FSDP, Strategy.FP16_GRADIENTS): "gradients are cut up on their way; say bf16, or ddp",
    (Strategy.FSDP, Strategy.POWERSGD): "gradients are cut up on their way; say ddp or zero1",
    **{
        (Strategy.SPLIT, other): "parts of a model are trained as they are; say split alone"
        for other in Strategy
        if other not in HOLDING
    },
}
"""Pairs that cannot go together, and why."""


def parse(text: str, field: str = "strategy") -> tuple[Strategy, ...]:
    """Return the strategies of a line of words, each once and in order; raises BadInput with all errors."""
    words = [word for word in re.split(r"[\s,+]+", text.strip().lower()) if word]
    known = {one.value: one for one in Strategy}
    rule = f"is no strategy; these are: {', '.join(known)}"
    mistakes = [Mistake(field, rule, word) for word in words if word not in known]
    found = ordered(known[word] for word in words if word in known)
    mistakes += [Mistake(field, clash) for clash in clashes(found)]
    if mistakes:
        raise BadInput(mistakes)
    return found


def ordered(strategies: Iterable[Strategy]) -> tuple[Strategy, ...]:
    """Each once, in the order in which they are written."""
    given = set(strategies)
    return tuple(one for one in Strategy if one in given)


def spell(strategies: Iterable[Strategy]) -> str:
    """Return the strategies as a user would write them; none at all is `plain`."""
    return " ".join(ordered(strategies)) or Strategy.PLAIN.value


def clashes(strategies: Iterable[Strategy]) -> list[str]:
    """Why these cannot go together, a sentence each; none if they can."""
    given = ordered(strategies)
    found = []
    for kind, rule in ((HOLDING, "hold a training"), (COMPRESSING, "make gradients smaller")):
        some = [one for one in given if one in kind]
        if len(some) > 1:
            found.append(f"{' and '.join(some)} {rule} in different ways; say one of them")
    found += [
        f"{one} and {other} do not go together: {why}"
        for (one, other), why in _APART.items()
        if one in given and other in given
    ]
    return found


def holding(strategies: Iterable[Strategy], workers: int = 1) -> Strategy:
    """Return the strategy that divides the training; without a word, several workers are `ddp`."""
    named = next((one for one in strategies if one in HOLDING), Strategy.PLAIN)
    return Strategy.DDP if named is Strategy.PLAIN and workers > 1 else named


def resizes(strategies: Iterable[Strategy]) -> bool:
    """Return whether workers may come and go while it runs; otherwise it is saved and started again."""
    return holding(strategies) not in SHARDED | {Strategy.SPLIT}


def together(workers: int) -> list[tuple[Strategy, ...]]:
    """Return the combinations to compare for so many
    workers: each strategy by itself, and the usual pairs.
    """
    alone: list[tuple[Strategy, ...]] = [
        (Strategy.BF16,),
        (Strategy.CHECKPOINT,),
        (Strategy.BF16, Strategy.CHECKPOINT),
        (Strategy.OFFLOAD,),
    ]
    if workers == 1:
        return [(Strategy.PLAIN,), *alone]
    several = [(one,) for one in (Strategy.DDP, Strategy.ZERO1, Strategy.ZERO2, Strategy.FSDP)]
    compressed = [(one,) for one in ordered(COMPRESSING)]
    both = (Strategy.FSDP, Strategy.BF16, Strategy.CHECKPOINT)
    return [*several, *alone, *compressed, both]

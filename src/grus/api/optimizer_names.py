"""Losses and optimizers that a `train:` section can name, with the options of each optimizer.

The names are those of torch (`torch.nn.functional`, `torch.optim`) in small letters; torch itself is not
needed to know them. A test compares this table with the installed torch.
"""

from dataclasses import dataclass

LOSSES = {
    "cross_entropy": "cross_entropy",
    "nll": "nll_loss",
    "mse": "mse_loss",
    "l1": "l1_loss",
    "smooth_l1": "smooth_l1_loss",
    "huber": "huber_loss",
    "binary_cross_entropy": "binary_cross_entropy",
    "binary_cross_entropy_with_logits": "binary_cross_entropy_with_logits",
    "kl_div": "kl_div",
    "poisson_nll": "poisson_nll_loss",
    "soft_margin": "soft_margin_loss",
    "multi_margin": "multi_margin_loss",
    "multilabel_margin": "multilabel_margin_loss",
    "multilabel_soft_margin": "multilabel_soft_margin_loss",
}
"""Losses of an output and a target, by the name that users write; torch's own name is understood too."""


METRICS = ("accuracy", "top5", "mae", "mse")
"""Metrics of an output and a target, for the evaluation of a model."""


@dataclass(frozen=True, slots=True)
class OptimizerSpec:
    """An optimizer."""

    torch: str
    """Its class in `torch.optim`."""
    options: frozenset[str]
    needs_rate: bool = False
    """True if no learning rate is right for most trainings."""


def _known(torch: str, options: str, *, needs_rate: bool = False) -> OptimizerSpec:
    return OptimizerSpec(torch, frozenset({"lr", *options.split()}), needs_rate)


OPTIMIZERS = {
    "adadelta": _known("Adadelta", "rho eps weight_decay"),
    "adafactor": _known("Adafactor", "d weight_decay"),
    "adagrad": _known("Adagrad", "lr_decay weight_decay initial_accumulator_value eps"),
    "adam": _known("Adam", "betas eps weight_decay amsgrad"),
    "adamax": _known("Adamax", "betas eps weight_decay"),
    "adamw": _known("AdamW", "betas eps weight_decay amsgrad"),
    "nadam": _known("NAdam", "betas eps weight_decay momentum_decay"),
    "radam": _known("RAdam", "betas eps weight_decay"),
    "rmsprop": _known("RMSprop", "alpha eps weight_decay momentum centered"),
    "sgd": _known("SGD", "momentum dampening weight_decay nesterov", needs_rate=True),
}
FLAGS = frozenset({"amsgrad", "centered", "nesterov"})
"""Options that are true or false."""
PAIRS = frozenset({"betas"})
"""Options that are two numbers."""


def loss_name(name: str) -> str | None:
    """Return the function of `torch.nn.functional` that a name means; None if it is not known."""
    return LOSSES.get(name) or (name if name in LOSSES.values() else None)

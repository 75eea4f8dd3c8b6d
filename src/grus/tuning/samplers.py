"""Samplers by name, and the packages that each needs."""

from collections.abc import Mapping
from importlib.util import find_spec

from grus.tuning import optuna_samplers, random_grid_sampling
from grus.tuning.random_grid_sampling import Sampler

SAMPLERS: Mapping[str, Sampler] = {
    "tpe": optuna_samplers.tpe,
    "gp": optuna_samplers.gp,
    "random": random_grid_sampling.random,
    "grid": random_grid_sampling.grid,
}
_NEEDS = {"tpe": {"optuna": "tuning"}, "gp": {"optuna": "tuning", "torch": "torch"}}
"""Packages beyond the base install that each sampler needs, and the extra that installs each."""


def missing(sampler: str) -> str:
    """Return a sentence about packages that this sampler needs and that are not installed; empty if none are
    missing.
    """
    lacking = {name: extra for name, extra in _NEEDS.get(sampler, {}).items() if find_spec(name) is None}
    if not lacking:
        return ""
    extras = ",".join(lacking.values())
    return (
        f"{sampler} needs {' and '.join(lacking)}, which the server does not have: "
        f"pip install 'grus-gpu[{extras}]' there, or write sampler: random"
    )

"""Policies by name, for what-if questions: each is a way to decide."""

from collections.abc import Mapping

from grus.model.errors import BadInput, Mistake
from grus.scheduling import cycle
from grus.simulation.simulator import Decide

USUAL = "grus"
"""The policy of the live pool."""

POLICIES: Mapping[str, Decide] = {USUAL: cycle.decide}


def decide_named(name: str) -> Decide:
    """The way to decide of this name. Raises BadInput that names those that there are."""
    found = POLICIES.get(name)
    if found is None:
        raise BadInput([Mistake("policy", f"must be one of {', '.join(POLICIES)}", name)])
    return found

"""Differences between Kubernetes releases, each decided here. Pure.

| since | difference |
| --- | --- |
| 1.21 | PodDisruptionBudget is `policy/v1`; 1.25 removed `policy/v1beta1` |
| 1.34 | an update of a deleted object is answered with 404; before, with 409 when the update names a uid |
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from grus.kubernetes.client.errors import Conflicts, Missing, Refused
from grus.kubernetes.client.resource_kinds import DISRUPTION_BUDGETS, DISRUPTION_BUDGETS_BETA, ResourceKind

_NUMBERS = re.compile(r"(\d+)\.(\d+)")


class Release(NamedTuple):
    """Major and minor number of a Kubernetes release."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def release_of(text: str) -> Release:
    """Read `v1.36.4`, `1.36+`, `v1.31.2-eks-7f9249a` or `v1.30.4+k3s1`; ValueError if it is no version."""
    found = _NUMBERS.search(text)
    if found is None:
        raise ValueError(f'"{text}" is no version of Kubernetes, such as v1.36.4')
    return Release(int(found[1]), int(found[2]))


def budgets_of(release: Release) -> ResourceKind:
    """PodDisruptionBudgets as this release serves them."""
    return DISRUPTION_BUDGETS if release >= (1, 21) else DISRUPTION_BUDGETS_BETA


def update_refused(refused: Refused, body: Mapping[str, Any]) -> Refused:
    """One answer for all releases: Conflicts, when the state that the update names is no longer there.

    An update without uid and resourceVersion names no state; its 404 stays Missing.
    """
    metadata = body["metadata"]
    names_state = metadata.get("uid") or metadata.get("resourceVersion")
    if isinstance(refused, Missing) and names_state:
        return Conflicts(refused.number, refused.reason, refused.text)
    return refused

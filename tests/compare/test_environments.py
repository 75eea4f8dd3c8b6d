"""Environments as they are named on the command line."""

import pytest

from grus.compare.environments import Environment, EnvironmentKind, parse
from grus.model.errors import BadInput


def test_every_kind_is_read_with_what_stands_behind_it() -> None:
    found = parse(["local", "grus=https://pool.example:8443", "kubernetes=lab/vision", "slurm=gpu", "slurm"])
    assert found == (
        Environment(EnvironmentKind.LOCAL, "", "local"),
        Environment(EnvironmentKind.GRUS, "https://pool.example:8443", "grus-pool-example-8443"),
        Environment(EnvironmentKind.KUBERNETES, "lab/vision", "kubernetes-lab-vision"),
        Environment(EnvironmentKind.SLURM, "gpu", "slurm-gpu"),
        Environment(EnvironmentKind.SLURM, "", "slurm"),
    )


def test_the_same_environment_twice_has_two_labels() -> None:
    assert [one.label for one in parse(["local", "local", "local"])] == ["local", "local_2", "local_3"]


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(BadInput) as caught:
        parse(["docker", "slurm=", "local=here", "kubernetes"])
    told = [(mistake.value, mistake.rule) for mistake in caught.value.mistakes]
    assert [value for value, _ in told] == ["docker", "slurm=", "local=here", "kubernetes"]
    assert "must be one of local, grus, kubernetes, slurm" in told[0][1]


def test_one_environment_is_nothing_to_compare() -> None:
    with pytest.raises(BadInput, match="at least two are needed"):
        parse(["local"])

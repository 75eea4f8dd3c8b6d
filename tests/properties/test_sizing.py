"""Whatever a training really needs, and however wrong its request or estimate: no attempt is given again what
fell short, and where some way of the pool would do, it is found."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grus.controlplane.gpu_sizing.memory_sizing import (
    GpuModel,
    MemoryHistory,
    NoFittingSize,
    SizedSpec,
    allowed,
    size,
)
from grus.controlplane.gpu_sizing.memory_sizing import given as granted_on
from grus.model.execution_plans import Shortage, Way, merged
from grus.model.jobs import Spec
from grus.model.resources import GPU
from tests.scheduler.builders import a_job

MB = 1_000_000
kinds = st.lists(
    st.builds(GpuModel, st.sampled_from(["A", "B", "C"]), st.integers(500, 80_000).map(lambda n: n * MB)),
    min_size=1,
    max_size=3,
    unique_by=lambda kind: kind.type,
)
memories = st.integers(50, 60_000).map(lambda n: n * MB)
hows = st.sampled_from([(), ("checkpoint",), ("split",), ("split", "bf16")])
ways = st.lists(
    st.builds(Way, st.integers(1, 4), memories | st.just(0), hows, st.floats(0.1, 2.0)), max_size=4
)


def grant(found: SizedSpec, pool: list[GpuModel], pick: int) -> Shortage:
    """What an attempt has to spend: some GPU that the request allows, whichever the scheduler takes."""
    (role,) = found.spec.request.roles
    replica = role.replica
    able = [kind for kind in allowed(replica, pool) if replica.gpus or replica.share_of(kind.memory) <= GPU]
    assert able, found
    count = role.replicas.low * max(1, replica.gpus)
    kind = sorted(able)[pick % len(able)]
    return Shortage(count, granted_on(replica, kind), found.spec.request.how)


def attempts(
    spec: Spec, pool: list[GpuModel], needs: dict[tuple[str, ...], int], picks: list[int]
) -> list[bool]:
    """Run until it ends well, or nothing is left; whether each attempt sufficed."""
    short: tuple[Shortage, ...] = ()
    outcomes: list[bool] = []
    while True:
        found = size(spec, MemoryHistory(short=short), pool, lambda _: "")
        if isinstance(found, NoFittingSize):
            assert found.why
            return outcomes
        one = grant(found, pool, picks[len(outcomes) % len(picks)])
        for past in short:
            again = past.how == one.how and past.gpus >= one.gpus and past.memory >= one.memory
            assert not again, f"{one} was given although {past} fell short"
        outcomes.append(one.memory * one.gpus >= needs[one.how])
        if outcomes[-1]:
            return outcomes
        short = merged([*short, one])
        assert len(outcomes) < 200


needed = st.fixed_dictionaries(dict.fromkeys([(), ("checkpoint",), ("split",), ("split", "bf16")], memories))
picks = st.lists(st.integers(0, 5), min_size=1, max_size=8)


@settings(max_examples=300, deadline=None)
@given(kinds, ways, needed, picks)
def test_a_job_left_to_grus_never_fails_the_same_way_twice(
    pool: list[GpuModel], ways: list[Way], needs: dict[tuple[str, ...], int], picks: list[int]
) -> None:
    asked = a_job("j").spec
    spec = replace(asked, request=replace(asked.request, auto=True, ways=tuple(ways)))
    outcomes = attempts(spec, pool, needs, picks)
    most = max(kind.memory for kind in pool)
    possible = [way for way in ways or [Way(1, 0)] if way.memory <= most]
    if any(most * way.gpus >= needs[way.how] for way in possible):
        assert outcomes, "a way that the estimate allows was not even tried"
        assert outcomes[-1], "a way that would do was not found"


@settings(max_examples=300, deadline=None)
@given(kinds, st.sampled_from([1, 2, 0.25, "1GB", "30GB"]), needed, picks)
def test_a_wrong_request_never_fails_the_same_way_twice_and_ends_well_if_it_can(
    pool: list[GpuModel], gpus: int | float | str, needs: dict[tuple[str, ...], int], picks: list[int]
) -> None:
    spec = a_job("j", gpus=gpus).spec
    most = max(kind.memory for kind in pool)
    if spec.request.roles[0].replica.gpu_memory > most:
        return  # refused at submit
    outcomes = attempts(spec, pool, needs, picks)
    count = gpus if isinstance(gpus, int) else 1
    assert outcomes[-1] == (most * count >= needs[()])


@pytest.mark.parametrize("need", [1, 7, 11])
def test_few_attempts_are_needed(need: int) -> None:
    """Each is half as large again: from 1 GB to 12 GB in at most seven."""
    spec = a_job("j", gpus="1GB").spec
    outcomes = attempts(spec, [GpuModel("A", 12_000 * MB)], {(): need * 1000 * MB}, [0])
    assert outcomes[-1]
    assert len(outcomes) <= 7

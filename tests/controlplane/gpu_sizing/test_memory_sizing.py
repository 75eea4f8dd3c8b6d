"""How much memory a job is given: by its estimate, by what its like took, never what fell short before."""

from dataclasses import replace

import pytest

from grus.controlplane.gpu_sizing.memory_sizing import (
    WATCHED,
    GpuModel,
    MemoryHistory,
    NoFittingSize,
    Peak,
    SizedSpec,
    known,
    size,
)
from grus.model.execution_plans import Shortage, Way
from grus.model.identifiers import JobId
from grus.model.jobs import Launch, Phase, Spec
from grus.model.profiles import GpuUsage, JobProfile, ProfiledRun
from grus.model.resources import GPU, Range
from tests.scheduler.builders import GB, a_job

SMALL, LARGE = GpuModel("RTX3060", 12 * GB), GpuModel("A100", 80 * GB)
POOL = (LARGE, SMALL)
NOTHING = MemoryHistory()
SPLIT = Way(2, 8 * GB, ("split",), 0.7)


def asked(gpus: int | float | str = 1, **more: object) -> Spec:
    return a_job("j", gpus=gpus, **more).spec  # type: ignore[arg-type]  # keywords of many types


def auto(*ways: Way, types: tuple[str, ...] = ()) -> Spec:
    spec = asked(types=types)
    return replace(spec, request=replace(spec.request, auto=True, ways=ways))


def sized(spec: Spec, what: MemoryHistory = NOTHING, pool: tuple[GpuModel, ...] = POOL) -> SizedSpec:
    found = size(spec, what, pool, lambda _: "")
    assert isinstance(found, SizedSpec), found
    return found


def refused(spec: Spec, what: MemoryHistory = NOTHING, pool: tuple[GpuModel, ...] = POOL) -> str:
    found = size(spec, what, pool, lambda _: "")
    assert isinstance(found, NoFittingSize), found
    return found.why


def memory(found: SizedSpec) -> int:
    return found.spec.request.roles[0].replica.gpu_memory


def types(found: SizedSpec) -> tuple[str, ...]:
    return found.spec.request.roles[0].replica.types


def fell(memory: int, gpus: int = 1, how: tuple[str, ...] = ()) -> MemoryHistory:
    return MemoryHistory(short=(Shortage(gpus, memory, how),))


# ------------------------------------------------------------------------------------------ gpu: auto


def test_an_estimate_becomes_a_slice_of_one_gpu() -> None:
    found = sized(auto(Way(1, 3 * GB)))
    assert memory(found) == 3 * GB
    assert found.why == "3GB of a GPU: by its estimate"
    assert not found.spec.request.auto
    assert found.spec.request.ways == ()


def test_the_fastest_way_that_fits_is_taken_and_its_strategies_are_told() -> None:
    ways = (Way(1, 13 * GB), SPLIT, Way(1, 9 * GB, ("checkpoint",), 0.8))
    found = sized(auto(*ways), pool=(SMALL,))
    assert (memory(found), found.spec.request.how) == (9 * GB, ("checkpoint",))
    assert memory(sized(auto(*ways))) == 13 * GB


def test_a_way_over_several_gpus_is_a_worker_on_each_of_those_that_have_the_memory() -> None:
    found = sized(auto(Way(2, 20 * GB, ("split",))))
    (role,) = found.spec.request.roles
    assert (role.replicas, role.replica.gpus, role.replica.types) == (Range(2, 2), 1, ("A100",))
    assert found.spec.launch is Launch.PER_GPU
    assert found.spec.request.how == ("split",)
    assert types(sized(auto(SPLIT))) == ()


def test_what_runs_like_it_took_is_believed_over_the_estimate() -> None:
    what = MemoryHistory(enough=(Peak(1, (), 2 * GB),))
    found = sized(auto(Way(1, 9 * GB)), what)
    assert memory(found) == 2_200_000_000
    assert "runs like it took up to 2GB" in found.why
    assert memory(sized(auto(), what)) == 2_200_000_000


def test_a_run_that_did_not_come_to_its_end_only_says_what_is_needed_at_least() -> None:
    assert memory(sized(auto(Way(1, 9 * GB)), MemoryHistory(seen=(Peak(1, (), 2 * GB),)))) == 9 * GB
    assert memory(sized(auto(Way(1, 2 * GB)), MemoryHistory(seen=(Peak(1, (), 4 * GB),)))) == 6 * GB


def test_without_an_estimate_and_without_history_it_takes_a_whole_gpu_and_says_so() -> None:
    found = sized(auto())
    assert found.spec.request.roles[0].replica.gpus == 1
    assert "nobody could tell" in found.why
    assert types(sized(auto(), fell(12 * GB))) == ("A100",)


def test_what_fell_short_makes_the_next_size_larger_and_at_last_another_way() -> None:
    spec = auto(Way(1, 4 * GB), SPLIT)
    steps = [memory(sized(spec, fell(step), pool=(SMALL,))) for step in (4 * GB, 6 * GB, 9 * GB)]
    assert steps == [6 * GB, 9 * GB, 12 * GB]
    last = sized(spec, fell(12 * GB), pool=(SMALL,))
    assert last.spec.request.how == ("split",)


def test_a_slice_that_fell_short_on_a_small_gpu_goes_to_a_larger_type_by_itself() -> None:
    assert memory(sized(auto(Way(1, 4 * GB)), fell(12 * GB))) == 18 * GB


def test_when_no_way_is_left_it_says_what_each_would_need() -> None:
    why = refused(auto(Way(1, 13 * GB), Way(2, 12 * GB + 1, ("split",))), pool=(SMALL,))
    assert "as it is it needs 13GB on one GPU (by its estimate)" in why
    assert "the largest GPU that it may have has 12GB" in why
    assert "split it needs 12GB on each of 2 GPUs" in why


def test_a_way_that_the_pool_can_never_give_is_passed_over() -> None:
    def fits(spec: Spec) -> str:
        return "asks for more than the pool could ever give it" if spec.request.how else ""

    both = auto(replace(SPLIT, speed=2.0), Way(1, 4 * GB))
    found = size(both, MemoryHistory(), POOL, fits)
    assert isinstance(found, SizedSpec)
    assert found.spec.request.how == ()
    alone = size(auto(SPLIT), MemoryHistory(), POOL, fits)
    assert isinstance(alone, NoFittingSize)
    assert "more than the pool could ever give" in alone.why


def test_where_nobody_knows_the_memory_of_the_gpus_whole_ones_are_taken() -> None:
    found = sized(auto(Way(1, 3 * GB)), pool=(GpuModel("A100", 0),))
    assert found.spec.request.roles[0].replica.gpus == 1
    assert "nobody tells how much memory the GPUs here have" in found.why


def test_the_types_that_a_user_names_are_the_only_ones_looked_at() -> None:
    assert "12GB" in refused(auto(Way(1, 20 * GB), types=("RTX3060",)))
    assert types(sized(auto(Way(1, 2 * GB), types=("RTX3060",)))) == ("RTX3060",)


# ------------------------------------------------------------------------------- as it was asked for


@pytest.mark.parametrize("gpus", [1, 4, 0.5, "2GB", "2..4"])
def test_who_never_fell_short_gets_what_was_asked_for(gpus: int | float | str) -> None:
    spec = asked(gpus)
    assert sized(spec) == SizedSpec(spec)
    assert sized(spec, MemoryHistory(enough=(Peak(1, (), GB),))) == SizedSpec(spec)


def test_a_slice_grows_to_a_whole_gpu_and_then_to_a_larger_one() -> None:
    steps = [memory(sized(asked("2GB"), fell(step))) for step in (2 * GB, 3 * GB, 12 * GB, 60 * GB)]
    assert steps == [3 * GB, 4_500_000_000, 18 * GB, 80 * GB]
    assert "80GB did not suffice" in refused(asked("2GB"), fell(80 * GB))


def test_a_slice_above_what_fell_short_stays_as_it_was_asked_for() -> None:
    assert sized(asked("3GB"), fell(2 * GB)).why == ""
    assert sized(asked(0.5), fell(2 * GB)).why == ""


def test_a_fraction_becomes_a_slice_by_memory() -> None:
    found = sized(asked(0.5), fell(6 * GB))
    replica = found.spec.request.roles[0].replica
    assert (replica.share, replica.gpu_memory) == (0, 9 * GB)


def test_a_slice_that_fell_short_becomes_the_smallest_that_sufficed_others() -> None:
    seen = (Peak(1, (), GB, 2 * GB), Peak(1, (), 4 * GB, 10 * GB), Peak(1, (), 4 * GB, 11 * GB))
    what = MemoryHistory(sufficed=seen, short=(Shortage(1, 2 * GB),))
    assert memory(sized(asked("2GB"), what)) == 10 * GB
    assert memory(sized(auto(Way(1, GB)), what)) == 10 * GB


def test_whole_gpus_become_larger_ones() -> None:
    found = sized(asked(2), fell(12 * GB, gpus=2))
    (role,) = found.spec.request.roles
    assert (role.replicas, role.replica.gpus, role.replica.types) == (Range(2, 2), 1, ("A100",))
    assert found.why == "GPUs of type A100: 12GB did not suffice"
    why = refused(asked(2), fell(80 * GB, gpus=2))
    assert "80GB" in why
    assert "smaller batch" in why


def test_more_gpus_may_do_where_fewer_fell_short_but_never_the_other_way_round() -> None:
    assert sized(asked(4), fell(80 * GB, gpus=2)).why == ""
    assert "80GB" in refused(asked(1), fell(80 * GB, gpus=2))


def test_an_elastic_job_may_start_with_more_workers_instead() -> None:
    found = sized(asked("2..8"), fell(12 * GB, gpus=3), pool=(SMALL,))
    assert found.spec.request.roles[0].replicas == Range(4, 8)
    assert "12GB" in refused(asked("2..8"), fell(12 * GB, gpus=8), pool=(SMALL,))


def test_a_larger_size_that_breaks_a_limit_is_no_answer() -> None:
    found = size(asked("2GB"), fell(2 * GB), POOL, lambda _: "asks for more than the limit of its queue")
    assert isinstance(found, NoFittingSize)
    assert "3GB of a GPU" in found.why
    assert "limit of its queue" in found.why


def test_of_a_type_of_which_some_gpus_are_too_small_only_one_can_be_asked_for() -> None:
    mixed = (GpuModel("A100", 40 * GB), GpuModel("A100", 80 * GB))
    assert memory(sized(asked(1), fell(40 * GB), pool=mixed)) == 80 * GB
    assert "40GB did not suffice" in refused(asked(2), fell(40 * GB, gpus=2), pool=mixed)
    assert memory(sized(asked("2GB"), fell(40 * GB), pool=mixed)) == 60 * GB


# ------------------------------------------------------------------------------------ out of profiles


def test_what_is_known_comes_from_runs_that_were_given_the_same() -> None:
    def run(name: str, phase: Phase, memory: int, given: str = "", **use: object) -> ProfiledRun:
        rest = {"gpus": GPU // 4, "seconds": WATCHED, **use}
        used = GpuUsage(type="A100", memory=memory, **rest)  # type: ignore[arg-type]  # keywords of many types
        return ProfiledRun(job=JobId(name), at=0.0, phase=phase, uses=(used,), given=given)

    profile = JobProfile(
        fingerprint="f",
        runs=(
            run("a", Phase.SUCCEEDED, 2),
            run("b", Phase.FAILED, 5),
            run("c", Phase.SUCCEEDED, 9, given="other"),
            run("d", Phase.SUCCEEDED, 3, gpus=2 * GPU, how=("split",)),
            run("e", Phase.SUCCEEDED, 4, seconds=WATCHED - 1, slice=7),
        ),
        short=(Shortage(1, 4), Shortage(1, 8, (), "other")),
    )
    assert known(profile, "", [Shortage(1, 6)]) == MemoryHistory(
        enough=(Peak(1, (), 2), Peak(2, ("split",), 3)),
        seen=(Peak(1, (), 5), Peak(1, (), 4, 7)),
        sufficed=(Peak(1, (), 4, 7),),
        short=(Shortage(1, 6),),
    )
    assert known(None, "", [Shortage(1, 6)]) == MemoryHistory(short=(Shortage(1, 6),))

"""Predicted speeds: right where the job ran, close where it did not, and honest about the distance."""

import random

import pytest

from benchmarks.pollux_sizes import doubling, one_left_out
from benchmarks.pollux_traces import data_folder, read_applications
from grus.scheduler.elasticity.throughput_model import (
    Profile,
    StepSample,
    fit,
    pooled,
)

DATA = data_folder()


def a_sample(nodes: int, gpus: int, local: float, odd: float = 1.0) -> StepSample:
    """A step of a made-up job: 20 ms and 1 ms an example, exchange of 10 ms in a node and 80 ms between."""
    compute = 0.02 + 0.001 * local
    more = max(gpus - 2, 0)
    exchange = 0.08 + 0.002 * more if nodes > 1 else 0.01 + 0.001 * more if gpus > 1 else 0.0
    step = odd * (compute**2 + exchange**2) ** 0.5
    return StepSample(nodes, gpus, local, step, step - odd * compute)


def samples(*shapes: tuple[int, int]) -> list[StepSample]:
    return [a_sample(nodes, gpus, local) for nodes, gpus in shapes for local in (8, 32, 128)]


def test_a_size_never_run_is_predicted_from_its_neighbours() -> None:
    model = fit(samples((1, 1), (1, 2), (2, 8), (8, 32)))
    for nodes, gpus in ((1, 4), (4, 16), (16, 64)):
        _, step = model.times(nodes, gpus, 64)
        assert float(step) == pytest.approx(a_sample(nodes, gpus, 64).step, rel=0.05)


def test_where_a_job_ran_the_measurement_is_the_prediction() -> None:
    """Whatever the formula misses there is corrected."""
    odd = a_sample(2, 8, 32, odd=1.4)
    model = fit([*samples((1, 1), (1, 4), (4, 16)), odd])
    assert float(model.times(2, 8, 32)[1]) == pytest.approx(odd.step, rel=0.03)


def test_the_correction_fades_with_distance() -> None:
    """A surprise at 8 GPUs says something about 12 and little about 64."""
    plain, odd = samples((1, 1), (1, 4), (2, 8), (16, 64)), a_sample(2, 8, 64, odd=1.4)
    surprised, calm = fit([*plain, odd]), fit(plain)
    shift = [
        float(surprised.times(n, g, 64)[1] / calm.times(n, g, 64)[1]) for n, g in ((2, 8), (3, 12), (16, 64))
    ]
    assert shift[0] > shift[1] > shift[2]


def test_uncertainty_grows_with_distance_from_what_was_run() -> None:
    model = fit(samples((1, 1), (1, 2), (1, 4)))
    near, far, farther = model.uncertainty([1, 2, 16], [4, 8, 64], 32)
    assert near < 0.03
    assert near < far < farther


def test_the_order_of_samples_does_not_matter() -> None:
    """The same facts give the same bits."""
    seen = samples((1, 1), (1, 4), (2, 8))
    shuffled = random.Random(7).sample(seen, len(seen))
    assert fit(seen).times(4, 16, 50)[1] == fit(shuffled).times(4, 16, 50)[1]


def test_without_samples_there_is_no_model() -> None:
    with pytest.raises(ValueError, match="at least one"):
        fit([])


def test_a_profile_keeps_one_sample_of_each_kind() -> None:
    profile = Profile(samples((1, 1)))
    assert not profile.add(a_sample(1, 1, 33))
    assert profile.add(a_sample(1, 2, 33))
    assert profile.version == 4
    assert profile.most_seen == 2


def test_what_finished_jobs_measured_fills_the_gaps_only() -> None:
    """A job's own measurement comes before one of another job with its fingerprint."""
    own = Profile([a_sample(1, 1, 32, odd=2.0)])
    together = pooled(own, {"f": Profile(samples((1, 1), (2, 8)))}, "f")
    assert a_sample(1, 1, 32, odd=2.0) in together.samples
    assert a_sample(1, 1, 32) not in together.samples
    assert together.most_seen == 8
    assert pooled(own, {}, "f").samples == own.samples


@pytest.mark.skipif(DATA is None, reason="set GRUS_DATA to the folder that holds pollux/")
def test_the_median_error_at_a_size_never_run_is_within_ten_percent() -> None:
    """Each size of each application left out once; twice the largest size that was seen is not much worse."""
    assert DATA is not None
    apps = read_applications(DATA)
    assert one_left_out(apps) <= 0.10
    assert doubling(apps) <= 0.12

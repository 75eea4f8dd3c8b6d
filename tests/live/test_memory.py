"""Jobs with wrong, too small requests end well without anybody doing anything, on a real server with virtual
GPUs of 1.5 GB: real processes, whose memory really does not suffice."""

import sys
from collections.abc import Iterator

import pytest

from grus.api.wire_types.job import JobOut
from grus.model.errors import DoesNotFit
from grus.simulator.recorded.replay import replay
from tests.live import memory_program
from tests.live.test_replay import RecordedPool

PATIENCE = 300.0
HOG = "import sys; blocks = [bytearray(1_000_000) for _ in range(int(sys.argv[1]))]"


class Shop:
    """A live pool to which jobs of so many megabytes are submitted."""

    def __init__(self, pool: RecordedPool) -> None:
        self.pool = pool

    def run(self, name: str, *command: str, **resources: object) -> JobOut:
        env = {"OMP_NUM_THREADS": "1"}
        handle = self.pool.submit(name, run=[sys.executable, *command], env=env, resources=resources)
        return handle.wait(PATIENCE)

    def take(self, name: str, megabytes: int, **resources: object) -> JobOut:
        """A program without torch, which needs little beside what it is told to take."""
        return self.run(name, "-I", "-S", "-c", HOG, str(megabytes), **resources)

    def texts(self, job: JobOut, kind: str) -> list[str]:
        return [event.text for event in self.pool.events(kind) if event.job == job.id]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with RecordedPool(tmp_path_factory.mktemp("memory"), "1x2x1500MB") as pool:
        yield Shop(pool)
    with pool.record.open("rb") as file:
        played = replay(file)
    assert played.difference is None, played.difference
    assert played.decisions > 0


def test_a_training_with_too_small_a_slice_ends_well(shop: Shop) -> None:
    pytest.importorskip("torch", reason="needs torch: a real training runs out of memory")
    job = shop.run("training", memory_program.__file__, "300", gpu="500MB")
    assert (job.phase, job.failures, job.asked) == ("succeeded", 0, "500MB")
    told = shop.texts(job, "enlarged")
    assert told, "500 MB cannot suffice a torch process with 300 MB of weights"
    assert "its slice of GPU memory of 500 MB did not suffice" in told[0]
    assert "starts again with 750MB of a GPU: 500MB did not suffice" in told[0]


def test_a_slice_grows_until_it_suffices_and_the_next_job_begins_with_that(shop: Shop) -> None:
    job = shop.take("small", 150, gpu="60MB")
    assert (job.phase, job.failures, job.asked, job.request) == ("succeeded", 0, "60MB", "210MB")
    assert job.attempt == 4
    assert len(shop.texts(job, "enlarged")) == 3
    (note,) = [note for note in shop.pool.grus.why(job.id).notes if "asked for" in note]
    assert note == "asked for `gpu: 60MB`, it takes 210MB of a GPU: 140MB did not suffice"
    again = shop.take("small-again", 150, gpu="60MB")
    assert (again.phase, again.attempt, again.asked) == ("succeeded", 1, "60MB")


def test_an_estimate_that_is_too_low_is_corrected(shop: Shop) -> None:
    ways = [{"gpus": 1, "memory": "100MB"}]
    job = shop.take("auto", 120, gpu="auto", ways=ways)
    assert (job.phase, job.failures, job.asked, job.request) == ("succeeded", 0, "auto", "150MB")
    again = shop.take("auto-again", 120, gpu="auto", ways=ways)
    assert (again.phase, again.attempt) == ("succeeded", 1)


def test_what_fits_no_gpu_here_fails_in_words_and_is_not_tried_again(shop: Shop) -> None:
    job = shop.take("huge", 2000, gpu="1GB")
    assert (job.phase, job.attempt) == ("failed", 2)
    assert "1.5GB did not suffice, and the largest GPU that it may have has 1.5GB" in job.reason
    with pytest.raises(DoesNotFit, match=r"1\.5GB did not suffice"):
        shop.take("huge-again", 2000, gpu="1GB")


def test_a_whole_gpu_beyond_which_there_is_nothing_fails_at_once(shop: Shop) -> None:
    job = shop.take("whole", 1800, gpu=1)
    assert (job.phase, job.attempt, job.failures) == ("failed", 1, 1)
    assert "GPU memory of 1.50 GB did not suffice" in job.reason

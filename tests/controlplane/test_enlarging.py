"""An end for want of GPU memory is answered by more of it, or another way; never the same failure twice."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from grus.controlplane.monitoring.profile_ingest import Profiling
from grus.controlplane.monitoring.telemetry_collector import holding
from grus.model.errors import DoesNotFit
from grus.model.execution_plans import Shortage, Way
from grus.model.identifiers import JobId
from grus.model.interfaces import PROFILES
from grus.model.jobs import Exit, ExitCause, Job, Launch, Phase, Spec
from grus.simulator.recorded.replay import replay
from tests.controlplane.plane import ANN, Plane, a_spec
from tests.scheduler.builders import GB, a_queue, a_role

OUT = Exit(ExitCause.GPU_MEMORY, 1, "the log ends with a CUDA out-of-memory error")
MIXED = "1x2:RTX3060+1x2:A100"
"""GPUs with 12 GB and with 80 GB."""


class Shop:
    """A control plane in virtual time that keeps profiles of what its jobs show."""

    def __init__(self, folder: Path, pool: str = MIXED) -> None:
        self.folder = folder
        (folder / "train.py").write_text("batch = 64")
        self.record: list[bytes] = []
        self.plane = Plane(a_queue("small", limit=0.5), pool=pool, record=self.record)
        self.begin()

    def begin(self) -> None:
        self.profiling = Profiling(
            self.plane.store,
            self.plane.profiles,
            jobs=lambda: holding(self.plane.loop),
            types=dict,
            clock=lambda: self.plane.now,
        )
        self.profiling.open()

    def die(self) -> None:
        """The server is killed, and another takes over; workers go on."""
        self.profiling.close()
        self.plane.restart()
        self.begin()

    def spec(self, name: str = "job", *ways: Way, auto: bool = False, **more: object) -> Spec:
        spec = a_spec(name, run=("python", "train.py"), workdir=str(self.folder), **more)
        return replace(spec, request=replace(spec.request, auto=auto or bool(ways), ways=ways))

    def submit(self, name: str = "job", *ways: Way, key: str | None = None, **more: object) -> JobId:
        spec = self.spec(name, *ways, **more)  # type: ignore[arg-type]  # keywords of many types
        id_ = self.plane.services.actions.submit(ANN, spec, key=key).result().id
        self.step()
        return id_

    def step(self) -> None:
        self.plane.settle()
        self.profiling.step(self.plane.now)

    def runs_out(self, id_: JobId, words: str = "") -> Job:
        """Its worker's memory does not suffice; the back-off passes."""
        self.plane.engine.fail(words or f"{id_}.", OUT)
        self.step()
        self.plane.after(2.0)
        self.step()
        return self.plane.job(id_)

    def job(self, id_: JobId) -> Job:
        return self.plane.job(id_)

    def granted(self, id_: JobId) -> int:
        return self.job(id_).spec.request.roles[0].replica.gpu_memory

    def texts(self, id_: JobId, kind: str) -> list[str]:
        return [event.text for event in self.plane.store.events(job=id_) if event.kind == kind]

    def finish(self, id_: JobId) -> None:
        self.plane.engine.finish(f"{id_}.")
        self.step()
        assert self.plane.phase(id_) is Phase.SUCCEEDED


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.profiling.close()
    made.plane.close()
    played = replay(made.record)
    assert played.difference is None, played.difference


def test_a_slice_that_was_too_small_starts_again_larger_and_is_not_charged(shop: Shop) -> None:
    job = shop.submit(gpus="2GB")
    grown = shop.runs_out(job)
    assert (grown.phase, grown.attempt, grown.failures) == (Phase.RUNNING, 2, 0)
    assert shop.granted(job) == 3 * GB
    assert grown.asked.roles[0].replica.gpu_memory == 2 * GB
    (text,) = shop.texts(job, "enlarged")
    assert "CUDA out-of-memory" in text
    assert "starts again with 3GB of a GPU: 2GB did not suffice" in text
    shop.finish(job)


def test_it_grows_to_a_whole_gpu_then_to_a_larger_type_and_at_last_fails_in_words(shop: Shop) -> None:
    job = shop.submit(gpus="8GB")
    granted = []
    while shop.runs_out(job).phase is Phase.RUNNING:
        granted.append(shop.granted(job))
    assert granted == [12 * GB, 18 * GB, 27 * GB, 40_500_000_000, 60_750_000_000, 80 * GB]
    assert shop.job(job).phase is Phase.FAILED
    assert "80GB did not suffice, and the largest GPU that it may have has 80GB" in shop.job(job).reason
    assert "smaller batch" in shop.job(job).reason


def test_a_whole_gpu_that_was_too_small_becomes_a_larger_type(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "1x1:RTX3060+1x1:A100")
    on_the_large_one, job = shop.submit("first", gpus=1), shop.submit(gpus=1)
    assert shop.job(job).seats[0].node == "n1"
    assert shop.runs_out(job).phase is Phase.PENDING
    assert "GPUs of type A100: 12GB did not suffice" in shop.texts(job, "enlarged")[0]
    shop.finish(on_the_large_one)
    assert shop.job(job).seats[0].node == "n2"
    assert shop.runs_out(job).phase is Phase.FAILED
    shop.plane.close()


def test_a_job_left_to_grus_gets_its_estimate_and_says_so(shop: Shop) -> None:
    job = shop.submit("auto", Way(1, 3 * GB))
    assert (shop.granted(job), shop.job(job).asked.auto) == (3 * GB, True)
    (text,) = shop.texts(job, "submitted")
    assert "it takes 3GB of a GPU: by its estimate" in text
    assert shop.job(job).spec.launch is Launch.PER_GPU
    shop.finish(job)


def test_when_no_single_gpu_suffices_it_is_held_another_way(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "1x4:RTX3060")
    job = shop.submit("auto", Way(1, 11 * GB), Way(2, 8 * GB, ("split",), 0.5))
    assert shop.granted(job) == 11 * GB
    assert shop.runs_out(job).seats[0].share == 10**6
    split = shop.runs_out(job)
    assert (split.phase, len(split.seats), split.spec.request.how) == (Phase.RUNNING, 2, ("split",))
    started = {id_: shop.plane.engine.workers_alive.known[id_].spec for id_ in shop.plane.engine.alive(job)}
    assert [dict(one.env)["GRUS_STRATEGY"] for one in started.values()] == ["split", "split"]
    assert "2 GPUs with 8GB or more each, split: by its estimate" in shop.texts(job, "enlarged")[-1]
    shop.finish(job)
    shop.plane.close()


def test_retries_are_for_other_failures(shop: Shop) -> None:
    job = shop.submit(gpus="2GB", retries=1)
    shop.runs_out(job)
    shop.runs_out(job)
    shop.plane.engine.exit(f"{job}.", 1)
    shop.plane.settle()
    assert (shop.job(job).failures, shop.job(job).phase) == (1, Phase.PENDING)
    shop.plane.after(2.0)
    assert shop.granted(job) == 4_500_000_000


def test_memory_of_the_host_is_another_matter(shop: Shop) -> None:
    job = shop.submit(gpus="2GB")
    shop.plane.engine.fail(f"{job}.", Exit(ExitCause.MEMORY, None, "used 3 GB, more than its limit"))
    shop.step()
    assert (shop.job(job).phase, shop.job(job).sizing) == (Phase.FAILED, None)


def test_a_job_of_several_roles_fails_as_it_would(shop: Shop) -> None:
    job = shop.submit(roles=(a_role("learner", 1, 1), a_role("actor", 1, "2GB")))
    shop.plane.engine.fail(".learner.", OUT)
    shop.step()
    assert (shop.job(job).phase, shop.job(job).sizing) == (Phase.FAILED, None)


def test_a_limit_that_more_memory_would_break_is_told(shop: Shop) -> None:
    job = shop.submit(gpus="30GB", queue="small")
    assert shop.runs_out(job).phase is Phase.FAILED
    assert "45GB of a GPU" in shop.job(job).reason
    assert "the limit of small is 0.5" in shop.job(job).reason


# --------------------------------------------------------------------- never the same failure twice


def test_the_next_job_of_its_fingerprint_does_not_begin_with_what_fell_short(shop: Shop) -> None:
    first = shop.submit(gpus="2GB")
    shop.runs_out(first)
    shop.finish(first)
    second = shop.submit(gpus="2GB")
    assert shop.granted(second) == 3 * GB
    assert "it takes 3GB of a GPU: 2GB did not suffice" in shop.texts(second, "submitted")[0]
    assert shop.job(second).attempt == 1


def test_who_waited_while_another_fell_short_starts_with_more(tmp_path: Path) -> None:
    """Although it gets its turn in the very moment in which the other leaves."""
    shop = Shop(tmp_path, "1x1:RTX3060")
    first, second = shop.submit(gpus="8GB"), shop.submit(gpus="8GB")
    assert shop.plane.phase(second) is Phase.PENDING
    shop.plane.engine.fail(f"{first}.", OUT)
    shop.plane.settle()
    assert (shop.plane.phase(second), shop.granted(second)) == (Phase.RUNNING, 12 * GB)
    assert shop.texts(second, "sized") == ["takes 12GB of a GPU: 8GB did not suffice"]
    assert shop.job(second).asked.roles[0].replica.gpu_memory == 8 * GB
    assert shop.granted(first) == 12 * GB
    shop.plane.close()


def test_who_was_paused_while_another_fell_short_goes_on_with_more(shop: Shop) -> None:
    first, second = shop.submit(gpus="8GB"), shop.submit(gpus="8GB")
    shop.plane.do(lambda: shop.plane.services.actions.pause(ANN, second))
    shop.runs_out(first)
    shop.plane.do(lambda: shop.plane.services.actions.resume(ANN, second))
    assert (shop.plane.phase(second), shop.granted(second)) == (Phase.RUNNING, 12 * GB)
    assert shop.job(second).attempt == 2


def test_it_is_remembered_by_the_next_server(shop: Shop) -> None:
    first = shop.submit(gpus="2GB")
    shop.runs_out(first)
    shop.finish(first)
    shop.die()
    assert shop.granted(shop.submit(gpus="2GB")) == 3 * GB


def test_other_code_and_another_environment_are_other_work(shop: Shop) -> None:
    first = shop.submit(gpus="2GB")
    shop.runs_out(first)
    smaller = shop.spec("smaller", gpus="2GB")
    id_ = shop.plane.services.actions.submit(ANN, replace(smaller, env=(("BATCH", "8"),))).result().id
    shop.step()
    assert shop.granted(id_) == 2 * GB
    (shop.folder / "train.py").write_text("batch = 8")
    assert shop.granted(shop.submit(gpus="2GB")) == 2 * GB


def test_the_very_same_work_is_refused_when_nothing_here_would_do(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "1x1:RTX3060")
    first = shop.submit(gpus=1)
    assert shop.runs_out(first).phase is Phase.FAILED
    with pytest.raises(DoesNotFit, match="12GB did not suffice"):
        shop.submit(gpus=1)
    (tmp_path / "train.py").write_text("batch = 8")
    assert shop.plane.phase(shop.submit(gpus=1)) is Phase.RUNNING
    shop.plane.close()


def test_a_plan_says_what_a_submit_would_give_and_leaves_nothing_behind(shop: Shop) -> None:
    first = shop.submit(gpus="2GB")
    shop.runs_out(first)
    fitting = shop.plane.services.actions.plan(ANN, shop.spec("auto", Way(1, 13 * GB)))
    assert (fitting.fits, fitting.sizing) == (True, "13GB of a GPU: by its estimate")
    tight = Way(2, 100 * GB, ("split",))
    refused = shop.plane.services.actions.plan(ANN, shop.spec("auto", tight))
    assert not refused.fits
    assert "100GB on each of 2 GPUs" in refused.sentence
    assert shop.plane.profiles.settled(JobId("plan")) is None


def test_a_repeated_submit_finds_its_job_whatever_was_made_of_it(shop: Shop) -> None:
    first = shop.submit(gpus="2GB", key="k")
    shop.runs_out(first)
    assert shop.submit(gpus="2GB", key="k") == first


def test_what_fell_short_is_kept_in_the_profile(shop: Shop) -> None:
    first = shop.submit(gpus="2GB")
    shop.runs_out(first)
    shop.runs_out(first)
    (profile,) = shop.plane.store.find(PROFILES)
    assert profile.short == (Shortage(1, 3 * GB),)


def test_an_elastic_gang_that_runs_out_goes_to_larger_gpus(tmp_path: Path) -> None:
    shop = Shop(tmp_path, "1x4:RTX3060+1x2:V100")
    job = shop.submit(gpus="1..4", launch=Launch.PER_GPU, mixed=True)
    assert [seat.node for seat in shop.job(job).seats] == ["n2", "n2", "n1", "n1"]
    assert shop.runs_out(job, "worker.3").phase is Phase.RUNNING
    assert [seat.node for seat in shop.job(job).seats] == ["n2", "n2"]
    assert shop.job(job).asked.roles[0].replica.types == ()
    shop.plane.close()

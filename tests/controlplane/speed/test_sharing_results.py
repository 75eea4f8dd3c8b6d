"""Two jobs on one GPU through the whole control plane: seen alone, let in, measured, kept or parted."""

import json

import pytest

from grus.controlplane.speed.sharing_results import LONGEST
from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.identifiers import JobId
from grus.model.jobs import Exit, ExitCause, Phase
from grus.model.resources import GPU
from grus.simulator.recorded.replay import replay
from tests.controlplane.plane import ANN, Plane

LOOK = 6.0
"""Seconds in which the loop looks at its nodes and reads reports."""
GB = 1_000_000_000


class Bench(Plane):
    """A control plane whose jobs make steps at given speeds."""

    def __init__(self, pool: str = "1x1", record: list[bytes] | None = None) -> None:
        super().__init__(pool=pool, record=record)
        self._steps: dict[JobId, float] = {}

    def work(self, looks: int, **speeds: float) -> "Bench":
        """Let jobs (by name) make so many steps a second and say so, for some looks at the reports."""
        for _ in range(looks):
            self.engine.advance(LOOK)
            for name, speed in speeds.items():
                job = self.named(name)
                self._steps[job] = self._steps.get(job, 0.0) + speed * LOOK
                said = {"at": self.now, "figures": {"step": round(self._steps[job])}}
                self.engine.reports(f"{job}.", json.dumps(said))
            self.settle()
        return self

    def named(self, name: str) -> JobId:
        return next(job.id for job in self.store.jobs() if job.spec.name == name)

    def tag(self, name: str, utilisation: float = 0.4, memory: int = 4 * GB) -> None:
        job = self.named(name)
        self.tags[job] = Tag(
            kind=WorkloadKind.TRAINING, at=0.0, expires=1e12, utilisation=utilisation, peak_memory=memory
        )

    def shares(self) -> dict[str, float]:
        return {job.spec.name: job.held / GPU for job in self.store.jobs() if job.seats}


def a_pair(record: list[bytes] | None = None, **of_guest: float) -> Bench:
    """Both were seen alone; the guest was paused, and waits again when the host has the one GPU."""
    bench = Bench(record=record)
    guest = bench.submit("guest", shares=True, run=("train", "a"))
    bench.tag("guest", **of_guest)  # type: ignore[arg-type]  # figures of a tag
    bench.work(4, guest=10.0)
    bench.do(lambda: bench.services.actions.pause(ANN, guest))
    host = bench.submit("host", shares=True, run=("train", "b"))
    bench.tag("host")
    bench.after(LOOK)
    bench.do(lambda: bench.services.actions.resume(ANN, guest))
    assert bench.phase(host) is Phase.RUNNING
    return bench


def test_a_pair_is_let_in_only_when_both_were_seen_alone() -> None:
    bench = a_pair()
    assert bench.shares() == {"host": 1.0}, "of the host no speed is known yet"
    bench.work(4, host=5.0)
    assert bench.shares() == {"host": 0.5, "guest": 0.5}
    assert "predicted to do 2.00 times" in bench.job(bench.named("guest")).reason
    assert bench.job(bench.named("host")).attempt == 1


def test_a_pair_that_gains_stays_and_says_what_was_measured() -> None:
    record: list[bytes] = []
    bench = a_pair(record).work(4, host=5.0)
    bench.work(12, host=4.0, guest=7.0)
    assert bench.shares() == {"host": 0.5, "guest": 0.5}
    for name in ("host", "guest"):
        assert "measured to do 1.5" in bench.job(bench.named(name)).reason
        assert bench.kinds(bench.named(name)).count("measured") == 1
    assert bench.kinds(bench.named("host")).count("shared") == 1
    assert replay(record).difference is None


def test_a_pair_that_loses_is_parted_and_not_tried_again() -> None:
    record: list[bytes] = []
    bench = a_pair(record).work(4, host=5.0)
    for _ in range(12):
        both = {"host": 2.0, "guest": 4.0} if len(bench.shares()) == 2 else {"host": 5.0}
        bench.work(1, **both)
    assert bench.shares() == {"host": 1.0}
    assert "measured to do 0.80 times" in bench.job(bench.named("guest")).reason
    assert bench.job(bench.named("host")).attempt == 1
    assert replay(record).difference is None
    bench.work(20, host=5.0)
    assert bench.shares() == {"host": 1.0}
    bench.engine.finish(f"{bench.named('host')}.")
    bench.settle()
    assert bench.shares() == {"guest": 1.0}


def test_a_guest_of_which_nothing_can_be_measured_does_not_stay() -> None:
    bench = a_pair().work(4, host=5.0)
    bench.work(int(LONGEST / LOOK) + 3, host=5.0)
    assert bench.shares() == {"host": 1.0}


def test_too_much_memory_beside_another_is_not_charged_and_parts_the_pair() -> None:
    bench = a_pair().work(4, host=5.0)
    guest = bench.named("guest")
    bench.engine.fail(f"{guest}.", Exit(ExitCause.GPU_MEMORY, 1, "CUDA out of memory"))
    bench.settle()
    assert bench.job(guest).failures == 0
    assert not bench.job(guest).terminal
    bench.work(5, host=5.0)
    assert bench.shares() == {"host": 1.0}


def test_a_host_that_grows_beside_its_guest_has_the_gpu_for_itself_again() -> None:
    bench = a_pair().work(4, host=5.0)
    bench.tag("host", memory=13 * GB)
    bench.work(2, host=5.0)
    assert bench.shares() == {"host": 1.0}


@pytest.mark.parametrize("shares", [True, False])
def test_a_job_of_the_same_fingerprint_may_be_let_in_at_once(shares: bool) -> None:
    bench = a_pair().work(4, host=5.0)
    bench.do(lambda: bench.services.actions.stop(ANN, bench.named("guest")))
    again = bench.submit("guest", shares=shares, run=("train", "a"))
    assert (bench.job(again).guest_of is not None) is shares


def test_a_pair_outlives_the_control_plane_that_made_it() -> None:
    bench = a_pair().work(4, host=5.0)
    bench.restart()
    bench.settle().after(LOOK)
    assert bench.shares() == {"host": 0.5, "guest": 0.5}
    assert bench.job(bench.named("host")).attempt == 1
    bench.engine.finish(f"{bench.named('guest')}.")
    bench.settle()
    assert bench.shares() == {"host": 1.0}

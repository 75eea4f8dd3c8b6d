"""Jobs that share a GPU, simulated: packed by the production scheduler, as fast as their pair lets them."""

import pytest

from grus.model.identifiers import JobId
from grus.scheduler.state.gpu_footprint import Footprint
from grus.simulator.events.decision_executor import Costs
from grus.simulator.simulator import Simulation
from grus.simulator.workload.job_work import TraceJob
from tests.scheduler.builders import GB, a_pool, a_queue

FREE = Costs(start=0.0, pause=0.0, resize=0.0, leave=0.0)


def ends(*works: TraceJob) -> list[float]:
    found = Simulation(a_pool("1x1"), [a_queue("default", quota=1)], works, costs=FREE).run()
    assert found.violations == ()
    return [ran.ended or 0.0 for ran in found.jobs]


def a_work(name: str, duration: float, use: float | None, **gains: float) -> TraceJob:
    known = None if use is None else Footprint(name, use, 4 * GB, tuple(gains.items()))
    return TraceJob(id=JobId(name), submit=0.0, duration=duration, footprint=known)


def test_two_light_jobs_run_side_by_side_at_full_speed() -> None:
    assert ends(a_work("a", 100.0, 0.3), a_work("b", 100.0, 0.4)) == pytest.approx([100.0, 100.0])


def test_two_that_fill_the_gpu_slow_each_other_down_and_the_rest_runs_alone() -> None:
    # Together 1.25 of one: until the first has done its 50 s at 0.625 of its speed, then alone.
    first, second = ends(a_work("a", 50.0, 0.8), a_work("b", 100.0, 0.8))
    assert first == pytest.approx(80.0)
    assert second == pytest.approx(80.0 + 50.0)


def test_a_pair_that_is_known_to_lose_takes_turns() -> None:
    assert ends(a_work("a", 100.0, 0.1, b=0.9), a_work("b", 100.0, 0.1, a=0.9)) == pytest.approx(
        [100.0, 200.0]
    )


def test_jobs_that_do_not_share_take_turns() -> None:
    assert ends(a_work("a", 100.0, None), a_work("b", 100.0, None)) == pytest.approx([100.0, 200.0])

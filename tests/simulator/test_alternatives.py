"""Split or wait: the answer is what the scheduler would make of it, worked out in the head here."""

from dataclasses import asdict, replace

from grus.model.resources import Replica
from grus.simulator.alternatives import Advice, Alternative, Future, ProposedJob, advise, decide, drawn
from grus.simulator.whatif_scenarios import PRESENT, Scenario
from grus.simulator.workload.job_work import TraceJob
from tests.scheduler.builders import GB, a_pool, a_queue
from tests.simulator.scenes import FREE, a_work

WAIT = Alternative("wait for a whole GPU", 1, 20 * GB, (("V100", 1.0),))
SPLIT = Alternative("split over 2 GPUs", 2, 10 * GB, (("RTX3060", 0.5),))
ASKED = ProposedJob(submit=0.0, seconds=600.0)


def on_the_large_one(name: str, duration: float) -> TraceJob:
    spec = ASKED.work(WAIT).job().spec
    return replace(a_work(name, duration=duration), spec=spec)


def a_scene(*works: TraceJob) -> Scenario:
    """Two small GPUs and a large one."""
    nodes = a_pool("1x2:RTX3060+1x1:V100")
    return Scenario(PRESENT, nodes, (a_queue("default", quota=3),), works, FREE)


def advised(*works: TraceJob, ways: tuple[Alternative, ...] = (WAIT, SPLIT), worlds: int = 1) -> Advice:
    later = replace(ASKED, submit=1.0)
    return advise(a_scene(*works), later, ways, worlds=worlds)


def test_a_job_is_split_when_the_large_gpu_is_taken_for_long() -> None:
    advice = advised(on_the_large_one("long", 2000.0))
    best, other = advice.futures
    assert (best.name, best.start, best.end) == (SPLIT.name, 0.0, 1200.0)
    assert (other.name, other.start, other.end) == (WAIT.name, 1999.0, 2599.0)
    assert round(best.gpu_hours * 3600) == 2400
    assert advice.sentence.startswith("Split over 2 GPUs: it ends after 20.0m")
    assert "wait for a whole GPU 43.3m (P90 43.3m, starts after 33.3m)" in advice.sentence


def test_it_waits_when_the_large_gpu_is_soon_free() -> None:
    assert advised(on_the_large_one("short", 300.0)).futures[0].name == WAIT.name


def test_of_two_that_end_at_about_the_same_time_the_one_that_holds_less_is_preferred() -> None:
    quick = Future(name="quick", end=100.0, end_late=100.0, gpu_hours=4.0)
    frugal = Future(name="frugal", end=104.0, end_late=104.0, gpu_hours=1.0)
    late = Future(name="late", end=106.0, end_late=106.0, gpu_hours=0.5)
    assert [one.name for one in decide([late, quick, frugal]).futures] == ["frugal", "quick", "late"]


def test_a_way_that_no_state_of_the_pool_could_run_is_told_with_the_reason() -> None:
    advice = advised(ways=(Alternative("wait", 1, 20 * GB, (("H100", 1.0),)), SPLIT))
    best, refused = advice.futures
    assert best.name == SPLIT.name
    assert "no GPU of type H100" in refused.impossible


def test_without_any_way_nothing_is_recommended() -> None:
    too_large = Alternative("split over 5 GPUs", 5, 10 * GB, (("RTX3060", 0.5),))
    advice = advised(ways=(too_large,))
    assert advice.best is None
    assert advice.as_json()["recommended"] is None
    assert advice.sentence.startswith("No way would do on this pool. split over 5 GPUs: ")


def test_what_the_others_lose_is_counted() -> None:
    behind = [a_work("behind", submit=10.0, duration=100.0, gpus=2)]
    held = on_the_large_one("long", 2000.0)
    advice = advised(held, *behind)
    losses = {one.name: one.others for one in advice.futures}
    assert losses[WAIT.name] == 0.0
    assert losses[SPLIT.name] == (1201.0 - 10.0) / 2  # one of two waits until the job has ended


def test_a_slice_leaves_the_rest_of_its_gpu_to_others() -> None:
    part = Alternative("checkpoint activations", 1, 6 * GB, (("RTX3060", 0.4),), slices=True)
    assert part.request().roles[0].replica == Replica(gpus=0, gpu_memory=6 * GB, types=("RTX3060",))
    filled = [a_work(f"small-{n}", duration=5000.0, gpus=0.5) for n in range(4)]
    spec = part.request()
    whole = [replace(one, spec=replace(one.job().spec, request=spec)) for one in filled[:3]]
    advice = advised(on_the_large_one("long", 9000.0), *whole, ways=(SPLIT, part))
    best, other = advice.futures
    assert (best.name, best.start) == (part.name, 0.0)
    assert other.start == 4999.0


def test_worlds_differ_but_the_same_question_has_the_same_answer() -> None:
    works = [on_the_large_one(f"one-{n}", 300.0) for n in range(3)]
    several = advised(*works, worlds=8)
    assert several == advised(*works, worlds=8)
    wait = next(one for one in several.futures if one.name == WAIT.name)
    assert wait.end < wait.end_late
    assert drawn(works, 0, 0.5) == tuple(works)
    assert len({one.duration for one in drawn(works, 1, 0.5)}) == 3


def test_progress_is_told_to_the_end() -> None:
    told: list[tuple[int, int]] = []
    advise(a_scene(), ASKED, (WAIT, SPLIT), worlds=2, progress=lambda done, whole: told.append((done, whole)))
    assert told == [(number, 6) for number in range(1, 7)]


def test_without_the_others_the_simulation_ends_with_the_job_and_says_the_same_of_it() -> None:
    scene = a_scene(on_the_large_one("long", 2000.0), a_work("behind", submit=10.0, duration=99_000.0))
    full = advise(scene, ASKED, (WAIT, SPLIT), worlds=2)
    short = advise(scene, ASKED, (WAIT, SPLIT), worlds=2, others=False)
    assert all(one.others is None for one in short.futures)
    assert [replace(one, others=None) for one in full.futures] == list(short.futures)


def test_what_cannot_be_foreseen_is_said_so() -> None:
    never = float("inf")
    open_ = Future(name="wait", start=never, end=never, end_late=never, note="no finished job like it")
    assert decide([open_]).sentence == (
        "Wait: when it ends cannot be foreseen (no finished job like it); there is no other way."
    )
    assert decide([open_]).as_json()["ways"] == [
        {**asdict(open_), "start": None, "end": None, "end_late": None}
    ]  # JSON has no infinity
    sure = Future(name="split", end=7200.0, end_late=never)
    assert decide([open_, sure]).sentence == (
        "Split: it ends after 2.0h (P90 open); wait cannot be foreseen (no finished job like it)."
    )

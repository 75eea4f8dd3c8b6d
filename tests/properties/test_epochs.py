"""Random histories in which every running job has a rhythm: who has to make room may finish its epoch first.

Every step checks what `tests.scheduler.world` does – the same bytes in any order, no swapping, nobody inside
quota left waiting, no wait longer than the bound – and at rest the shares are those without any rhythm.
"""

from hypothesis import given
from hypothesis import strategies as st

from grus.model.activity_labels import Tag, WorkloadKind
from grus.model.queues import Queue
from grus.scheduler.preempt.epoch_windows import LONGEST_WAIT
from tests.properties.profiles import profile
from tests.properties.test_core_machine import flat
from tests.scheduler import invariants
from tests.scheduler.builders import a_job
from tests.scheduler.world import World

PERIODS = [6.0, 25.0, 60.0, 90.0, 400.0]


def recognise(world: World, data: st.DataObject) -> None:
    """Every running job is somewhere in an epoch of its own."""
    for name in sorted(world.running()):
        period = data.draw(st.sampled_from(PERIODS), "period")
        since = data.draw(st.integers(0, 9), "tenths of it") * period / 10
        kind = data.draw(
            st.sampled_from(
                [WorkloadKind.TRAINING, WorkloadKind.TRAINING, WorkloadKind.TRAINING, WorkloadKind.UNKNOWN]
            ),
            "kind",
        )
        tag = Tag(kind=kind, at=world.now, expires=1e9, period=period, boundary=world.now - since)
        world.note(name, tag)


@given(flat(), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=2, max_size=10), st.data())
@profile(examples=80)
def test_shares_are_fair_in_the_end_whoever_was_let_finish_an_epoch(
    case: tuple[int, list[Queue]], events: list[tuple[int, int]], data: st.DataObject
) -> None:
    pool, queues = case
    world = World(f"1x{pool}", *queues)
    for number, (which, count) in enumerate(events):
        recognise(world, data)
        queue = queues[which % len(queues)].name
        if count:
            world.submit(*[a_job(f"{queue}-{number}-{i}", queue=queue) for i in range(count)])
        elif running := world.running(queue):
            world.finish(min(running))
        world.advance(LONGEST_WAIT + 61).advance(61).advance(61)
        wrong = invariants.singles_at_rest(world.facts())
        assert not wrong, wrong


@given(
    flat(),
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, 1, 2, 3, "1..3"])), min_size=2, max_size=10),
    st.data(),
)
@profile(examples=80)
def test_gangs_and_elastic_jobs_come_to_rest_too(
    case: tuple[int, list[Queue]], events: list[tuple[int, int | str]], data: st.DataObject
) -> None:
    pool, queues = case
    world = World(f"1x{pool}", *queues)
    for number, (which, gpus) in enumerate(events):
        queue = queues[which % len(queues)].name
        recognise(world, data)
        world.submit(a_job(f"{queue}-{number}", queue=queue, gpus=gpus))
        world.advance(data.draw(st.sampled_from([1.0, 30.0, 200.0]), "seconds"))
    world.advance(200)

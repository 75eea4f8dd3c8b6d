"""Tentative changes: whatever is tried, going back to a mark restores the snapshot to the byte."""

from hypothesis import given
from hypothesis import strategies as st

from grus.scheduler.placement.gang_placement import place
from grus.scheduler.state.job_entry import Entry
from grus.scheduler.state.transaction import Transaction
from tests.properties.core_strategies import jobs, pools, size_of, trees
from tests.properties.profiles import profile
from tests.scheduler.dump import dump
from tests.scheduler.world import WORKED_OUT, World


@given(st.data())
@profile(examples=300)
def test_going_back_to_any_mark_restores_everything(data: st.DataObject) -> None:
    nodes = data.draw(pools(), "pool")
    queues = data.draw(trees(size_of(nodes)), "queues")
    leaves = [str(q.name) for q in queues if not any(other.parent == q.name for other in queues)]
    world = World(nodes, *queues)
    for i in range(data.draw(st.integers(1, 8), "running")):
        world.submit(data.draw(jobs(f"r{i}", leaves)))
    world.settle()
    for i in range(data.draw(st.integers(0, 4), "waiting")):
        world.submit(data.draw(jobs(f"w{i}", leaves)))
    snapshot = world.snapshot
    transaction = Transaction(snapshot)
    marks = [(transaction.mark(), dump(snapshot, WORKED_OUT))]
    for _ in range(data.draw(st.integers(1, 12), "operations")):
        entry = snapshot.entries[data.draw(st.sampled_from(sorted(snapshot.entries)), "job")]
        try_something(data, transaction, entry)
        marks.append((transaction.mark(), dump(snapshot, WORKED_OUT)))
        if data.draw(st.integers(0, 3), "back?") == 0:
            number = data.draw(st.integers(0, len(marks) - 1), "to which mark")
            transaction.undo(marks[number][0])
            assert dump(snapshot, WORKED_OUT) == marks[number][1]
            del marks[number + 1 :]
    transaction.undo(0)
    assert dump(snapshot, WORKED_OUT) == marks[0][1]


def try_something(data: st.DataObject, transaction: Transaction, entry: Entry) -> None:
    """Seat a waiting job now or soon; take all or some seats of a running one, and perhaps give them back."""
    if not entry.places:
        horizon = data.draw(st.integers(0, 1), "horizon")
        found = place(transaction, entry.shape, entry.shape.counts(), horizon, 1)
        if found is not None:
            transaction.seat(entry, tuple(found), now=horizon == 0)
        return
    first = data.draw(st.integers(0, len(entry.places) - 1), "from seat")
    places = entry.places[first:]
    transaction.unseat(entry, places)
    if data.draw(st.booleans(), "return them"):
        transaction.reseat(entry, places)

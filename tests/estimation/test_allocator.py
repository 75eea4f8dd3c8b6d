from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from grus.estimation.allocation_trace import Event
from grus.estimation.allocator import MIB, Allocator, replay, rounded, segment

SIZES = st.one_of(
    st.integers(0, 4096), st.integers(0, 3 * MIB), st.integers(8 * MIB, 12 * MIB), st.integers(0, 200 * MIB)
)


@st.composite
def some_lives(draw: st.DrawFn) -> list[Event]:
    """Pieces that are born and, some of them, die."""
    events: list[Event] = []
    alive: list[Event] = []
    for number, (size, dies) in enumerate(draw(st.lists(st.tuples(SIZES, st.booleans()), max_size=60))):
        if dies and alive:
            gone = alive.pop(draw(st.integers(0, len(alive) - 1)))
            events.append(Event(gone.piece, -gone.size))
        else:
            alive.append(Event(number, size))
            events.append(alive[-1])
    return events


def play(allocator: Allocator, event: Event) -> None:
    if event.size < 0:
        allocator.give_back(event.piece)
    else:
        allocator.take(event.piece, event.size)


def alive_after(events: list[Event]) -> dict[int, int]:
    dead = {event.piece for event in events if event.size < 0}
    return {event.piece: event.size for event in events if event.piece not in dead}


def test_blocks_are_multiples_of_512_bytes_and_empty_pieces_have_none() -> None:
    assert [rounded(size) for size in (0, 1, 512, 513)] == [0, 512, 512, 1024]


def test_segments_have_the_sizes_of_pytorch() -> None:
    sizes = (512, MIB, MIB + 512, 10 * MIB - 512, 10 * MIB, 11 * MIB, 33 * MIB + 512)
    assert [segment(size) // MIB for size in sizes] == [2, 2, 20, 20, 10, 12, 34]


def test_small_pieces_share_a_segment() -> None:
    assert replay([Event(piece, 512 * 1024) for piece in range(4)]).reserved == 2 * MIB
    assert replay([Event(piece, 512 * 1024) for piece in range(5)]).reserved == 4 * MIB


def test_small_and_large_pieces_never_share_a_segment() -> None:
    assert replay([Event(0, 5 * MIB), Event(1, 1024)]).reserved == 22 * MIB


def test_what_was_given_back_is_used_again() -> None:
    again = [Event(0, 50 * MIB), Event(0, -50 * MIB), Event(1, 49 * MIB)]
    assert replay(again).reserved == 50 * MIB


def test_a_rest_of_up_to_one_mib_of_a_large_segment_stays_with_its_block() -> None:
    allocator = Allocator()
    allocator.take(0, 19 * MIB + 512)
    allocator.give_back(0)
    allocator.take(1, 19 * MIB)
    assert allocator.allocated == 20 * MIB


def test_the_smallest_block_that_is_large_enough_is_taken() -> None:
    events = [Event(0, 100 * MIB), Event(1, 40 * MIB), Event(0, -100 * MIB), Event(1, -40 * MIB)]
    assert replay([*events, Event(2, 40 * MIB), Event(3, 100 * MIB)]).reserved == 140 * MIB


def test_at_the_cap_kept_segments_go_back_before_the_replay_calls_it_too_small() -> None:
    events = [Event(0, 60 * MIB), Event(0, -60 * MIB), Event(1, 80 * MIB)]
    assert replay(events).reserved == 140 * MIB
    capped = replay(events, capacity=100 * MIB)
    assert (capped.reserved, capped.fits) == (80 * MIB, True)
    assert not replay(events, capacity=79 * MIB).fits


def test_a_segment_of_which_a_part_is_in_use_cannot_go_back() -> None:
    events = [Event(0, 40 * MIB), Event(0, -40 * MIB), Event(1, 12 * MIB), Event(2, 64 * MIB)]
    assert replay(events, capacity=104 * MIB).fits
    assert not replay(events, capacity=102 * MIB).fits


def test_the_moment_is_when_most_blocks_were_in_use() -> None:
    events = [Event(0, 4 * MIB), Event(1, 8 * MIB), Event(1, -8 * MIB), Event(2, 4 * MIB)]
    usage = replay(events)
    assert (usage.allocated, usage.moment) == (12 * MIB, 1)


@given(some_lives())
def test_blocks_in_use_never_overlap_and_hold_their_pieces(events: list[Event]) -> None:
    allocator = Allocator()
    for event in events:
        play(allocator, event)
        blocks = list(allocator.blocks())
        assert all(end <= begin for (_, end), (begin, _) in pairwise(blocks))
        assert sum(end - begin for begin, end in blocks) == allocator.allocated <= allocator.reserved
    assert allocator.allocated >= sum(map(rounded, alive_after(events).values()))


@given(some_lives())
def test_with_everything_given_back_all_segments_are_whole_again(events: list[Event]) -> None:
    allocator = Allocator()
    for event in events:
        play(allocator, event)
    for piece in alive_after(events):
        allocator.give_back(piece)
    assert allocator.allocated == 0
    allocator.capacity = 202 * MIB  # only whole segments can make room for one larger than all of them
    allocator.take(-1, 202 * MIB)
    assert (allocator.reserved, allocator.fits) == (202 * MIB, True)


def test_lives_that_come_again_may_need_more_since_best_fit_cuts_other_segments() -> None:
    sizes = {0: 60, 1: 40, 2: 20, 3: 44}
    once = [Event(0, 60 * MIB), Event(0, -60 * MIB), *(Event(n, sizes[n] * MIB) for n in (1, 2, 3))]
    ends = [Event(n, -sizes[n] * MIB) for n in (1, 2, 3)]
    assert replay(once).reserved == 104 * MIB
    assert replay([*once, *ends, *once]).reserved > 104 * MIB


@given(some_lives(), st.integers(1, 400))
def test_a_cap_is_never_exceeded_while_things_fit_and_never_raises_the_need(
    events: list[Event], mib: int
) -> None:
    free, capped = replay(events), replay(events, capacity=mib * MIB)
    if capped.fits:
        assert capped.reserved <= mib * MIB
    assert capped.fits or free.reserved > mib * MIB

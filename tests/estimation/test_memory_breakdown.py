from grus.estimation.allocation_trace import Event, MemoryCategory, Trace
from grus.estimation.allocator import MIB, replay
from grus.estimation.memory_breakdown import alive, parts

TRACE = Trace(
    (Event(0, 4 * MIB), Event(1, 8 * MIB), Event(2, 100), Event(1, -8 * MIB), Event(3, 3 * MIB)),
    {
        0: MemoryCategory.WEIGHTS,
        1: MemoryCategory.ACTIVATIONS,
        2: MemoryCategory.GRADIENTS,
        3: MemoryCategory.OPTIMIZER,
    },
)


def test_the_parts_together_are_what_the_gpu_shows() -> None:
    usage = replay(TRACE.events)
    found = parts(TRACE, usage, workspace=5 * MIB, context=7 * MIB)
    assert found.total == usage.reserved + 12 * MIB
    assert (found.weights, found.activations, found.gradients, found.optimizer) == (4 * MIB, 8 * MIB, 512, 0)
    assert found.context == 7 * MIB


def test_what_has_died_is_in_no_part() -> None:
    assert alive(TRACE, 4) == {
        MemoryCategory.WEIGHTS: 4 * MIB,
        MemoryCategory.ACTIVATIONS: 0,
        MemoryCategory.GRADIENTS: 512,
        MemoryCategory.OPTIMIZER: 3 * MIB,
    }


def test_the_peak_of_a_trace_is_not_rounded() -> None:
    assert TRACE.peak == 12 * MIB + 100

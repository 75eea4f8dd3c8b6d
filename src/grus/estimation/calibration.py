"""Margins between a replay and the peak of a real run.

Libraries on a GPU take workspaces that no trace on a CPU shows, and free them in an order of their own. Pure.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Margin:
    """Bytes to add to a replay."""

    typical: int
    """Margin for the estimate; from 0, since the replay is already the sum of all required memory."""
    upper: int
    """Margin for the bound that admission uses."""


WORKSPACE = 800_000_000
"""The upper margin of ten models on an RTX 3060, from the runs that were published with xMem."""
LEAST_WORKSPACE = 64 << 20
PROCESS = 128_000_000


def usual(replayed: int) -> Margin:
    """Return the margin for a type of GPU on which too few models ran.

    None of the published cases took a quarter more.
    """
    return Margin(0, min(WORKSPACE, LEAST_WORKSPACE + replayed // 4))


def usual_of_a_process(held: int) -> Margin:
    """Return the margin for a virtual GPU, which is a process.

    Nine models took 2 % to 100 % beyond their tensors, and one of convolutions between 80 and 200 MB more
    from run to run. A process keeps freed memory in pieces that are too small for the next allocation.
    """
    return Margin(held // 4, PROCESS + held * 6 // 10)

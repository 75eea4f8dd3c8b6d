"""Series read from the recorder, and the names of subjects that are counted rather than measured."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grus.model.identifiers import NodeId, QueueName
from grus.telemetry.samples import Subject

# No machine can have such a name: host names have neither @ nor /.
POOL = Subject(NodeId("@pool"))
"""All GPUs together: `held`, `demand` and `capacity`."""
_QUEUE = "@queue/"


def of_queue(name: QueueName) -> Subject:
    """A queue's series: `held` and `demand`."""
    return Subject(NodeId(_QUEUE + name))


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Means on an even grid: `values[i]` is that of [start + i·step, start + (i+1)·step)."""

    start: float
    step: float
    values: NDArray[np.float64]
    """NaN where nothing was measured, or where it is no longer known at this step."""

    @property
    def times(self) -> NDArray[np.float64]:
        """The middle of each step."""
        return self.start + (np.arange(len(self.values), dtype=np.float64) + 0.5) * self.step

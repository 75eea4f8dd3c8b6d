"""Gradient noise measurement: compares, every few steps, a small batch's gradient with the whole step's.

The small batch is the first micro-batch of each worker. Its squared norm is summed over the worker group
together with the flags of the following step, so that it costs no exchange of its own.
"""

from grus.elastic.data.adaptive_batch_size import BatchSizer
from grus.elastic.data.sample_schedule import Micro
from grus.elastic.gradients.bucket_reducer import Reducer, Scattered

EVERY = 4
"""Steps between two looks: a look reads all gradients twice."""


class NoiseMeter:
    def __init__(self) -> None:
        self._looks = False
        self._measured = (0.0, 0.0)
        self.carried = (0.0, 0.0)
        """Squared norm of the small gradient of the step before, and 1 for "there is one"."""
        self._sizes = (0, 0)
        self._carried_sizes = (0, 0)
        self._norm = 0.0
        self._carried_norm = 0.0

    def begin(self, step: int) -> None:
        """A step begins (perhaps again)."""
        self.carried, self._carried_norm = self._measured, self._norm
        self._carried_sizes = self._sizes
        self._measured, self._norm, self._sizes = (0.0, 0.0), 0.0, (0, 0)
        self._looks = step % EVERY == 0

    def small(self, reducer: Reducer | Scattered, micro: Micro, scale: float) -> None:
        """Measure after a micro-batch's backward pass; only the first of a step counts."""
        if not self._looks or self._measured[1]:
            return
        factor = micro.weight * scale
        self._measured = (float(reducer.squared_norm()) / (factor * factor), 1.0)

    def big(self, reducer: Reducer | Scattered, samples: int, size: int, scale: float) -> None:
        """The gradient of the whole step, which has so many samples, in micro-batches of `size`."""
        if self._looks:
            self._norm = float(reducer.squared_norm()) / (scale * scale)
            self._sizes = (min(size, samples), samples)

    def teach(self, sizer: BatchSizer, small: float, count: float) -> None:
        """Pass a measurement to the sizer, given the sum of the small norms over the worker group."""
        if count and self._carried_sizes[1]:
            few, many = self._carried_sizes
            sizer.observe(small / count, few, self._carried_norm, many)

"""A recorder in virtual time, and what tests feed it with."""

import math
from collections.abc import Sequence
from pathlib import Path

from grus.model.identifiers import DeviceId, NodeId
from grus.telemetry.samples import Measure, Sample, Subject
from grus.telemetry.tsdb import Keep, Recorder

START = 1_790_000_400.0
"""A multiple of ten minutes."""
GPU = Subject(NodeId("n0"), DeviceId("GPU-0"))
UTILISATION = Measure.UTILISATION


class Tape:
    """`tell` lets time pass second by second; `again` closes the recorder and opens it anew."""

    def __init__(self, path: Path, *, hz: float = 1.0, keep: Keep | None = None) -> None:
        self.path = path
        self.now = START
        self.hz = hz
        self.keep = keep
        self.recorder = self.opened()

    def opened(self) -> Recorder:
        return Recorder(self.path, hz=self.hz, keep=self.keep, clock=lambda: self.now)

    def again(self) -> Recorder:
        self.recorder.close()
        self.recorder = self.opened()
        return self.recorder

    def tell(
        self, values: Sequence[float], *, step: float = 1.0, of: Subject = GPU, what: Measure = UTILISATION
    ) -> None:
        for value in values:
            self.recorder.add([Sample(of, self.now + step / 2, {what: value})])
            self.now += step

    def read(
        self,
        since: float,
        until: float,
        step: float | None = 1.0,
        *,
        of: Subject = GPU,
        highest: bool = False,
    ) -> list[float]:
        """Relative to the start; a gap is -1."""
        found = self.recorder.read(of, UTILISATION, START + since, START + until, step, highest=highest)
        return [-1.0 if math.isnan(value) else round(value, 5) for value in found.values.tolist()]

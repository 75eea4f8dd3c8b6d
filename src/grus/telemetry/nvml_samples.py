"""GPU samples of this machine from the NVIDIA driver, up to ten times a second: a `SampleSource` of samples.

A child process (`nvml_probe`) calls the driver, so that a driver that hangs blocks only the child: a child
that is silent for too long is killed, and a new one is started after a pause that grows. It is another child
than that of the pool of GPUs (`nvml`), which reads more and less often.
"""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from grus.model.identifiers import DeviceId, NodeId
from grus.telemetry.missing_metrics import Missing, Roll, missing_of, name
from grus.telemetry.nvidia_nvml import DriverTimeout, Probe
from grus.telemetry.samples import Batch, Measure, Sample, Subject

PATIENCE = 2.0
STARTING = 15.0
"""Seconds for the first answer of a child: the driver may have to be loaded first."""
LONGEST_PAUSE = 60.0
"""Seconds before a driver that was silent is asked again, at most."""
_DRIVER = "the NVIDIA driver"
_HERE = "this machine"
_MEASURES = {
    "utilisation": Measure.UTILISATION,
    "memory_time": Measure.MEMORY_TIME,
    "used": Measure.MEMORY,
    "power": Measure.POWER,
    "temperature": Measure.TEMPERATURE,
}


class NvmlSamples:
    """Called by one thread, every `interval` seconds.

    The driver's utilization is a mean over the last sixth of a second to a second, by the kind of GPU. A
    value that a GPU does not support is absent; for one that is partitioned (MIG), that is its utilization.
    """

    def __init__(
        self,
        node: NodeId,
        *,
        interval: float = 1.0,
        patience: float = PATIENCE,
        module: str = "pynvml",
        starting: float = STARTING,
    ) -> None:
        self._node = node
        self._interval = interval
        self._patience = patience
        self._module = module
        self._starting = starting
        self._probe: Probe | None = None
        self._answered = False
        """True if this child ever did."""
        self._asked: tuple[float, float] | None = None
        """Time of the last request, by the caller's clock and in monotonic time, if it is not answered
        yet.
        """
        self._heard: float | None = None
        self._pause = interval
        self._again = 0.0
        self._missing = Missing()
        self._roll = Roll()

    @property
    def shortest(self) -> float:
        return self._interval

    def sample(self, now: float) -> Batch:
        if now < self._again:
            return Batch((), self._missing.all())
        try:
            found, asked, moment = self._ask(now)
        except (DriverTimeout, OSError, ValueError) as error:
            self._give_up(str(error), now)
            return Batch((), self._missing.all())
        if found is None:
            self._missing.lose(_DRIVER, f"no answer in {self._patience:g} s", self._since(now))
            return Batch((), self._missing.all())
        self._heard, self._pause = now, self._interval
        self._missing.found(_DRIVER)
        return self._tell(found["gpus"], asked - moment)

    def close(self) -> None:
        probe, self._probe = self._probe, None
        if probe is not None:
            probe.end()

    def _ask(self, now: float) -> tuple[dict[str, Any] | None, float, float]:
        """Return the answer, if there is one yet, and the time of its request. A late answer keeps its
        time.
        """
        if self._probe is None:
            self._probe = Probe(self._module)
            self._answered, self._asked = False, None
        if self._asked is None:
            self._asked = (now, time.monotonic())
            self._probe.say("figures")
        asked, moment = self._asked
        found = self._probe.hear(self._patience)
        if found is not None:
            self._answered, self._asked = True, None
        elif self._answered or time.monotonic() - moment > self._starting:
            raise DriverTimeout(f"no answer in {time.monotonic() - moment:.1f} s")
        return found, asked, moment

    def _since(self, now: float) -> float:
        return now if self._heard is None else self._heard

    def _give_up(self, why: str, now: float) -> None:
        self.close()
        self._again = now + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._missing.lose(_DRIVER, why, self._since(now))

    def _tell(self, gpus: Sequence[Mapping[str, Any]], offset: float) -> Batch:
        """`offset` is what the caller's clock is ahead of monotonic time."""
        samples = []
        for gpu in gpus:
            if not gpu["id"]:
                continue  # lost before it ever reported its name
            subject = Subject(self._node, DeviceId(gpu["id"]))
            values = {measure: gpu.get(key) for key, measure in _MEASURES.items()}
            told = {measure: float(value) for measure, value in values.items() if value is not None}
            if gpu.get("fault"):
                last = self._roll.last(subject)
                since = last if math.isfinite(last) else offset + time.monotonic()
                self._missing.lose(name(subject), str(gpu["fault"]), since)
            else:
                samples.append(Sample(subject, gpu["moment"] + offset, told))
        for sample in samples:
            self._roll.see(sample.subject, _HERE, sample.at)
            self._missing.found(name(sample.subject))
        there = [Subject(self._node, DeviceId(gpu["id"])) for gpu in gpus]
        for subject in missing_of(self._roll.of(_HERE), there):
            self._missing.lose(name(subject), "the driver no longer lists it", self._roll.last(subject))
        return Batch(tuple(samples), self._missing.all())

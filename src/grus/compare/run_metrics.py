"""Figures of one run, computed from its record. Pure.

A figure that was not measured is None, never zero. Time is split as far as the workload could see the
difference:

    queue      submitted → resources given        (as the environment reports)
    start-up   resources given → the sampler began
    setup      the job's `setup` lines
    to step 1  the command began → the first step that it reported
    steps      the first reported step → the last
    rest       the last reported step → the end of the command
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from grus.compare.environments import Ending
from grus.compare.records import ResourceSample, RunRecord

SETUP, RUN = "setup", "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A run's record and its end."""

    record: RunRecord
    ending: Ending


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    name: str
    unit: str
    better: str
    """`more`, `less`, or empty where neither is."""
    of: Callable[[MeasuredRun], float | None]


def steps_per_second(taken: MeasuredRun) -> float | None:
    """Steps between the first report of one and the last, by the time between them."""
    reached = _reached(taken.record)
    if len(reached) < 2 or reached[-1][0] <= reached[0][0]:
        return None
    return (reached[-1][1] - reached[0][1]) / (reached[-1][0] - reached[0][0])


def samples_per_second(taken: MeasuredRun) -> float | None:
    """Steps a second times the batch of a step (all GPUs together), if it was one and the same."""
    steps, batches = steps_per_second(taken), said(taken.record, "batch")
    return steps * batches[0] if steps is not None and len(batches) == 1 else None


def step_seconds(record: RunRecord) -> list[float]:
    """Seconds of a step, between each two reports of one."""
    reached = _reached(record)
    return [(b[0] - a[0]) / (b[1] - a[1]) for a, b in pairwise(reached)]


def said(record: RunRecord, name: str) -> list[float]:
    """The different values that the workload reported under a name."""
    return sorted({told.figures[name] for told in record.told if name in told.figures})


def words(record: RunRecord, name: str) -> list[str]:
    return sorted({told.words[name] for told in record.told if told.words.get(name)})


def stage_seconds(record: RunRecord) -> dict[str, float]:
    """Return the seconds in each stage that the workload reported, and in `setup`; a stage may occur more
    than once.
    """
    if record.finish is None:
        return {}
    ends = [stage.t for stage in record.stages[1:]] + [record.finish.t]
    found: dict[str, float] = {}
    for stage, end in zip(record.stages, ends, strict=True):
        found[stage.name] = found.get(stage.name, 0.0) + max(0.0, end - stage.t)
    return found


def run_samples(record: RunRecord) -> list[ResourceSample]:
    """Those of the command itself, not of its setup; what was measured before it began is left out."""
    begun = _begun(record)
    return [] if begun is None else [sample for sample in record.samples if sample.t > begun]


def run_seconds(taken: MeasuredRun) -> float | None:
    begun, finish = _begun(taken.record), taken.record.finish
    return None if begun is None or finish is None else finish.t - begun


def gpu_energy(taken: MeasuredRun) -> float | None:
    """Return the joules of the GPUs that it was given: power times the time span of each sample."""
    samples = run_samples(taken.record)
    powers = [_gpu(sample, lambda gpu: gpu.power, sum) for sample in samples]
    known = [(s, p) for s, p in zip(_spans(taken.record, samples), powers, strict=True) if p is not None]
    return sum(span * power for span, power in known) if known else None


def host_energy(taken: MeasuredRun) -> float | None:
    counted = [sample.host_energy for sample in run_samples(taken.record)]
    known = [joules for joules in counted if joules is not None]
    return sum(known) if known else None


def cpu_mean(taken: MeasuredRun) -> float | None:
    return _weighted(taken.record, lambda sample: sample.cpu)


def others_mean(taken: MeasuredRun) -> float | None:
    """Cores that somebody else used on the node while it ran."""
    return _weighted(taken.record, lambda sample: sample.others_cpu)


def load_mean(taken: MeasuredRun) -> float | None:
    """Return the cores that the load beside it really used, not the requested number."""
    return _weighted(taken.record, lambda sample: sample.load_cpu) if taken.record.load else None


def _weighted(record: RunRecord, of: Callable[[ResourceSample], float | None]) -> float | None:
    """Return the mean over time: a sample is weighted by its time span."""
    samples = run_samples(record)
    values = [
        (span, value)
        for span, value in zip(_spans(record, samples), map(of, samples), strict=True)
        if value is not None and span > 0
    ]
    total = sum(span for span, _ in values)
    return sum(span * value for span, value in values) / total if total else None


def _spans(record: RunRecord, samples: Sequence[ResourceSample]) -> list[float]:
    """Return the seconds that each sample covers: since the sample before, or since the command began."""
    begun = _begun(record) or 0.0
    before = [begun, *(sample.t for sample in samples)]
    return [sample.t - since for sample, since in zip(samples, before, strict=False)]


def _begun(record: RunRecord) -> float | None:
    return next((stage.t for stage in record.stages if stage.name == RUN), None)


def _reached(record: RunRecord) -> list[tuple[float, float]]:
    """Time and step, where a step was reported that had not been reported before."""
    found: list[tuple[float, float]] = []
    for told in record.told:
        step = told.figures.get("step")
        if step is not None and (not found or step > found[-1][1]):
            found.append((told.t, step))
    return found


def _gpu(
    sample: ResourceSample, of: Callable[..., float | None], join: Callable[[Iterable[float]], float]
) -> float | None:
    values = [of(gpu) for gpu in sample.gpus if gpu.mine]
    known = [value for value in values if value is not None]
    return join(known) if known else None


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return sum(known) / len(known)


def _quantile(taken: MeasuredRun, part: float) -> float | None:
    """Return a quantile of the seconds per step within one run."""
    times = step_seconds(taken.record)
    return float(np.quantile(times, part)) if times else None


def _to_first_step(taken: MeasuredRun) -> float | None:
    begun, reached = _begun(taken.record), _reached(taken.record)
    return reached[0][0] - begun if begun is not None and reached else None


def _rest(taken: MeasuredRun) -> float | None:
    reached, finish = _reached(taken.record), taken.record.finish
    return finish.t - reached[-1][0] if reached and finish is not None else None


def _of_steps(taken: MeasuredRun) -> float | None:
    reached = _reached(taken.record)
    return reached[-1][0] - reached[0][0] if len(reached) > 1 else None


def _per_joule(taken: MeasuredRun) -> float | None:
    """Samples for a kilojoule that its GPUs took during the whole run."""
    rate, seconds, joules = samples_per_second(taken), _of_steps(taken), gpu_energy(taken)
    if rate is None or seconds is None or not joules:
        return None
    return rate * seconds / (joules / 1000)


def _memory_mean(taken: MeasuredRun) -> float | None:
    return _weighted(taken.record, lambda sample: sample.memory)


def _own(taken: MeasuredRun) -> float | None:
    finish, seconds = taken.record.finish, run_seconds(taken)
    if finish is None or finish.own_cpu_seconds is None or not seconds:
        return None
    return finish.own_cpu_seconds / seconds


MEASURES = (
    Measure(name="steps/s", unit="1/s", better="more", of=steps_per_second),
    Measure(name="samples/s", unit="1/s", better="more", of=samples_per_second),
    Measure(name="step median", unit="s", better="less", of=lambda taken: _quantile(taken, 0.5)),
    Measure(name="step p95", unit="s", better="less", of=lambda taken: _quantile(taken, 0.95)),
    Measure(name="run", unit="s", better="less", of=run_seconds),
    Measure(name="queue", unit="s", better="less", of=lambda taken: taken.ending.queued),
    Measure(name="start-up", unit="s", better="less", of=lambda taken: taken.ending.startup),
    Measure(name="setup", unit="s", better="less", of=lambda taken: stage_seconds(taken.record).get(SETUP)),
    Measure(name="to step 1", unit="s", better="less", of=_to_first_step),
    Measure(name="steps", unit="s", better="less", of=_of_steps),
    Measure(name="rest", unit="s", better="less", of=_rest),
    Measure(name="CPU", unit="cores", better="", of=cpu_mean),
    Measure(
        name="CPU time",
        unit="s",
        better="less",
        of=lambda taken: taken.record.finish.cpu_seconds if taken.record.finish else None,
    ),
    Measure(name="memory mean", unit="bytes", better="", of=_memory_mean),
    Measure(
        name="memory peak",
        unit="bytes",
        better="less",
        of=lambda taken: _most(sample.memory for sample in run_samples(taken.record)),
    ),
    Measure(
        name="read", unit="bytes/s", better="", of=lambda taken: _weighted(taken.record, lambda s: s.read)
    ),
    Measure(
        name="written",
        unit="bytes/s",
        better="",
        of=lambda taken: _weighted(taken.record, lambda s: s.write),
    ),
    Measure(
        name="GPU use",
        unit="part",
        better="",
        of=lambda taken: _weighted(taken.record, lambda s: _gpu(s, lambda gpu: gpu.use, _mean)),
    ),
    Measure(
        name="GPU memory peak",
        unit="bytes",
        better="",
        of=lambda taken: _most(_gpu(s, lambda gpu: gpu.memory, max) for s in run_samples(taken.record)),
    ),
    Measure(
        name="GPU power",
        unit="W",
        better="",
        of=lambda taken: _weighted(taken.record, lambda s: _gpu(s, lambda gpu: gpu.power, sum)),
    ),
    Measure(name="GPU energy", unit="J", better="less", of=gpu_energy),
    Measure(name="host energy", unit="J", better="less", of=host_energy),
    Measure(name="samples/kJ", unit="1/kJ", better="more", of=_per_joule),
    Measure(name="others' CPU", unit="cores", better="", of=others_mean),
    Measure(name="sampler's CPU", unit="cores", better="", of=_own),
)
"""All measures, in the order in which they are shown."""

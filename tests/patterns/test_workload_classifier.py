"""Kinds: told by evidence, and unknown without."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import Generator

from grus.model.activity_labels import WorkloadKind
from grus.model.jobs import JobType
from grus.patterns.activity_bursts import Activity
from grus.patterns.online import Beat
from grus.patterns.periods import Rhythm
from grus.patterns.workload_classifier import Traits, idle_after, judge, traits
from tests.patterns import traces
from tests.patterns.traces import Floats

SEEDS = range(500, 525)
"""Not those by which the rules were set."""
SECONDS = 600
BUSY = Traits(at_work_for=300.0, mean=0.9)
BEAT = Rhythm(20.0, 0.8, 1000.0)


def seen(make: Callable[[Generator, int], tuple[Floats, Floats]], seed: int) -> WorkloadKind:
    """What ten minutes of a trace are taken for, by telemetry alone."""
    values, memory = make(np.random.default_rng(seed), SECONDS)
    activity, beat = Activity(), Beat()
    for second, value in enumerate(values):
        activity.add(float(second), float(value))
        beat.add(float(second), float(value))
    last = slice(SECONDS - 300, None)
    return judge(traits(activity, values[last], memory[last], beat.found(float(SECONDS - 1)))).kind


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (traces.training, WorkloadKind.TRAINING),
        (traces.inference, WorkloadKind.INFERENCE),
        (traces.dev, WorkloadKind.DEV),
        (traces.idle, WorkloadKind.IDLE),
        (traces.drift, WorkloadKind.UNKNOWN),
    ],
    ids=lambda value: value.value if isinstance(value, WorkloadKind) else value.__name__,
)
def test_nine_of_ten_traces_are_told_for_what_they_are(
    make: Callable[[Generator, int], tuple[Floats, Floats]], kind: WorkloadKind
) -> None:
    found = Counter(seen(make, seed) for seed in SEEDS)
    assert found[kind] >= 0.9 * len(SEEDS), found


def test_reported_steps_are_training_whatever_telemetry_says() -> None:
    found = judge(BUSY, stepping=True)
    assert (found.kind, found.sentence) == (WorkloadKind.TRAINING, "it reports steps")
    assert judge(replace(BUSY, quiet_for=500.0), stepping=True).kind is WorkloadKind.TRAINING


def test_a_rhythm_is_training_also_in_a_dev_job_and_says_where_it_shows() -> None:
    found = judge(replace(BUSY, rhythm=BEAT, measure="power"), type=JobType.DEV)
    assert (found.kind, found.confidence) == (WorkloadKind.TRAINING, 0.8)
    assert found.sentence == "it has a rhythm in its power"


def test_an_unsure_rhythm_is_none() -> None:
    assert judge(replace(BUSY, rhythm=replace(BEAT, confidence=0.2))).kind is WorkloadKind.UNKNOWN


def test_known_work_on_new_data_is_retraining() -> None:
    look = replace(BUSY, rhythm=BEAT)
    assert judge(look, before=WorkloadKind.TRAINING, new_data=True).kind is WorkloadKind.RETRAINING
    assert judge(look, before=WorkloadKind.RETRAINING, new_data=True).kind is WorkloadKind.RETRAINING
    assert judge(look, before=WorkloadKind.TRAINING).kind is WorkloadKind.TRAINING
    assert judge(look, new_data=True).kind is WorkloadKind.TRAINING
    assert judge(look, before=WorkloadKind.INFERENCE, new_data=True).kind is WorkloadKind.TRAINING


def test_without_evidence_of_its_own_it_is_what_earlier_runs_were_but_less_surely() -> None:
    found = judge(BUSY, before=WorkloadKind.INFERENCE)
    assert (found.kind, found.confidence) == (WorkloadKind.INFERENCE, 0.6)
    assert judge(BUSY, before=WorkloadKind.UNKNOWN).kind is WorkloadKind.UNKNOWN


def test_a_dev_job_without_a_rhythm_is_dev_and_idle_when_nothing_happens() -> None:
    assert judge(BUSY, type=JobType.DEV).kind is WorkloadKind.DEV
    assert judge(replace(BUSY, quiet_for=60.0), type=JobType.DEV).kind is WorkloadKind.IDLE


def test_a_served_model_is_inference_whatever_the_rhythm_of_its_requests() -> None:
    assert judge(replace(BUSY, rhythm=BEAT), type=JobType.SERVE).kind is WorkloadKind.INFERENCE
    assert judge(replace(BUSY, quiet_for=60.0), type=JobType.SERVE).kind is WorkloadKind.IDLE


def test_steady_work_without_a_rhythm_is_unknown_not_a_guess() -> None:
    assert judge(BUSY).kind is WorkloadKind.UNKNOWN
    assert judge(replace(BUSY, resident=1.0)).kind is WorkloadKind.UNKNOWN


def test_between_epochs_is_not_idle() -> None:
    slow = replace(BUSY, rhythm=replace(BEAT, period=100.0), quiet_for=90.0)
    assert judge(slow).kind is WorkloadKind.TRAINING
    assert judge(replace(slow, quiet_for=210.0)).kind is WorkloadKind.IDLE


def test_pauses_that_are_usual_are_not_idle_unless_they_are_very_long() -> None:
    assert idle_after(replace(BUSY, longest_pause=40.0)) == 80.0
    assert idle_after(replace(BUSY, longest_pause=4000.0)) == 120.0
    assert idle_after(BUSY) == 30.0


def test_what_has_not_begun_to_work_is_unknown_until_it_is_idle() -> None:
    assert judge(Traits(quiet_for=10.0)).kind is WorkloadKind.UNKNOWN
    assert judge(Traits(quiet_for=31.0)).kind is WorkloadKind.IDLE

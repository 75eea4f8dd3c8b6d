"""Stages of a training."""

from dataclasses import replace

import numpy as np
import pytest

from grus.model.activity_labels import TrainingStage
from grus.patterns.training_phases import TrainingSignals, levels, stage, usual

TRAINS = TrainingSignals(begun=True, period=120.0, now=0.9, usual=0.9, writes=0.0)


def test_before_its_first_step_it_starts_up() -> None:
    assert stage(replace(TRAINS, begun=False)) is TrainingStage.START_UP
    assert stage(TRAINS) is TrainingStage.TRAINING


def test_who_stands_still_and_writes_saves() -> None:
    assert stage(replace(TRAINS, now=0.05, writes=80e6)) is TrainingStage.CHECKPOINT
    assert stage(replace(TRAINS, now=0.05, writes=100.0)) is TrainingStage.TRAINING
    assert stage(replace(TRAINS, now=0.9, writes=80e6)) is TrainingStage.TRAINING


def test_who_is_busy_while_its_steps_rest_evaluates() -> None:
    assert stage(replace(TRAINS, steps_rest=True)) is TrainingStage.EVALUATION
    assert stage(replace(TRAINS, steps_rest=True, now=0.0)) is TrainingStage.TRAINING


def test_the_rarer_of_two_levels_is_evaluation() -> None:
    scene = replace(TRAINS, levels=(0.9, 0.5))
    assert stage(replace(scene, now=0.52)) is TrainingStage.EVALUATION
    assert stage(replace(scene, now=0.86)) is TrainingStage.TRAINING


def test_within_short_periods_stages_are_not_told() -> None:
    assert stage(replace(TRAINS, period=4.0, now=0.0, writes=80e6)) is TrainingStage.TRAINING


def test_two_levels_are_seen_and_the_frequent_one_comes_first() -> None:
    rng = np.random.default_rng(7)
    values = np.where(np.arange(240) % 60 < 45, 0.9, 0.5) + rng.normal(0, 0.02, 240)
    found = levels(values, 60.0)
    assert found is not None
    assert found == pytest.approx((0.9, 0.5), abs=0.02)


def test_one_level_with_noise_is_one() -> None:
    rng = np.random.default_rng(7)
    assert levels(rng.normal(0.8, 0.05, 240), 60.0) is None
    assert levels(rng.uniform(0.3, 0.9, 240), 60.0) is None
    assert levels(np.full(240, 0.9), 60.0) is None


def test_short_dips_are_no_stage_of_their_own() -> None:
    values = np.where(np.arange(240) % 10 < 8, 0.9, 0.5)
    assert levels(values, 60.0) is None
    assert levels(np.where(np.arange(240) % 60 < 57, 0.9, 0.5), 60.0) is None


def test_usual_activity_is_that_of_busy_moments() -> None:
    assert usual(np.array([0.0, 0.0, 0.0, 0.8, 0.9, 1.0])) == pytest.approx(0.9)
    assert usual(np.zeros(5)) == 0.0

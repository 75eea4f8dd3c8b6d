"""A section that the API has checked reaches the program of the job unchanged."""

import json
from dataclasses import asdict, fields

import pytest

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.inputs.serving_schema import ServeIn
from grus.api.inputs.training_schema import TrainIn
from grus.model.errors import BadInput
from grus.model.train_serve_spec import ServeSection, TrainSection, on_command_line

TRAIN = {
    "model": "nets.py:network",
    "data": "nets.py:pictures",
    "loss": "cross_entropy",
    "optimizer": {"name": "adam", "lr": 0.001},
    "batch": 64,
    "validation": "nets.py:others",
    "export": True,
}


def test_the_program_of_a_training_reads_what_the_job_says() -> None:
    job = JobIn.model_validate({"train": TRAIN, "resources": {"gpu": 1}})
    assert job.train is not None
    read = on_command_line(TrainSection, to_spec(job).run[-1:])
    assert asdict(read) == job.train.model_dump()


def test_both_sides_know_the_same_fields() -> None:
    assert {one.name for one in fields(TrainSection)} == set(TrainIn.model_fields)
    assert {one.name for one in fields(ServeSection)} == set(ServeIn.model_fields) - {"replicas"}
    for one in (*fields(TrainSection), *fields(ServeSection)):
        known = (TrainIn if one in fields(TrainSection) else ServeIn).model_fields[one.name]
        assert one.default == known.default


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "train: is given as one argument"),
        (["{"], "train: is not valid JSON"),
        (["[]"], "train: must be a JSON object"),
        ([json.dumps({**TRAIN, "warmup": 3})], "train.warmup: is unknown here; the grus-gpu-sdk of this"),
        ([json.dumps({"model": "nets.py:network"})], "train.data: is needed"),
    ],
)
def test_a_section_that_this_version_cannot_run_is_refused_in_words(words: list[str], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        on_command_line(TrainSection, words)
    assert str(refused.value.mistakes[0]).startswith(message)

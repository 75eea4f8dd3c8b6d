"""The job reference says what is true: every field is in it, and its examples are good."""

import re
from pathlib import Path

import pytest

from grus.api.inputs.job_schema import AffinityIn, CheckpointIn, IdleIn, JobIn, RoleIn
from grus.api.inputs.resources import ResourcesIn
from grus.api.inputs.serving_schema import ServeIn
from grus.api.inputs.training_schema import TrainIn
from grus.api.inputs.yaml_job_file import parse_job_file
from grus.api.optimizer_names import LOSSES, METRICS, OPTIMIZERS
from grus.api.parsing.fields import SET_BY_GRUS
from grus.api.parsing.validation_errors import Strict
from grus.model.errors import BadInput
from grus.model.texts.units import parse_gpu

REFERENCE = (Path(__file__).parents[3] / "docs" / "job-reference.md").read_text()


@pytest.mark.parametrize(
    "model", [JobIn, ResourcesIn, CheckpointIn, IdleIn, AffinityIn, RoleIn, TrainIn, ServeIn]
)
def test_every_field_is_in_the_reference(model: type[Strict]) -> None:
    assert [key for key in model.field_names() if f"`{key}`" not in REFERENCE] == []


def test_every_loss_optimizer_and_metric_is_in_the_reference() -> None:
    assert [name for name in (*LOSSES, *OPTIMIZERS, *METRICS) if f"`{name}`" not in REFERENCE] == []


def test_every_yaml_example_is_a_good_job_file() -> None:
    examples = re.findall(r"```yaml\n(.*?)```", REFERENCE, re.DOTALL)
    assert len(examples) >= 3
    for example in examples:
        assert parse_job_file(example, folder="/somewhere")


def test_every_form_of_gpu_in_the_reference_is_read() -> None:
    section = REFERENCE[REFERENCE.index("| `gpu` | asks for |") :]
    forms = re.findall(r"^\| `([^`]+)` \|", section[: section.index("\n\n")], re.MULTILINE)[1:]
    assert len(forms) >= 7
    for form in forms:
        assert str(parse_gpu(form.replace("\\|", "|")))


def test_the_mistakes_shown_are_told_in_these_words() -> None:
    text = "run: a\nqueue: b\nresources:\n  gpu: 2-8\n  memory: 32G\nname: c\nretrys: 3\n"
    with pytest.raises(BadInput) as caught:
        parse_job_file(text, folder="/somewhere")
    assert "\n".join(map(str, caught.value.mistakes)) in REFERENCE


def test_variables_for_people_are_in_the_reference() -> None:
    internal = {"GRUS_REPORT", "GRUS_VIRTUAL", "GRUS_WORKER_TOKEN", "GRUS_GPU_MEMORY_FRACTION"}
    assert [name for name in SET_BY_GRUS - internal if f"`{name}`" not in REFERENCE] == []

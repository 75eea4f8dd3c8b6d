"""A `train:` section becomes a training: by names, by functions, by one function; mistakes are gathered."""

import inspect
from pathlib import Path

import pytest
import torch
from torch import nn

from grus.api.inputs.training_schema import TrainIn
from grus.api.optimizer_names import FLAGS, LOSSES, OPTIMIZERS, PAIRS
from grus.api.parsing.validation_errors import read
from grus.estimation.fake_tensor_trace import trace
from grus.estimation.training_definition import Training
from grus.estimation.training_factory import training_of
from grus.model.errors import BadInput
from grus.model.train_serve_spec import TrainSection
from grus.model.train_serve_spec import section as value

PARTS = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

def network(): return nn.Linear(3, 2)
def pairs(): return TensorDataset(torch.arange(15.0).reshape(5, 3), torch.tensor([0, 1, 0, 1, 1]))
def away(output, target): return (output.argmax(1) - target).float().abs().mean() + output.sum() * 0
def plain(parameters): return torch.optim.SGD(parameters, lr=0.5)
def stream(): return iter([])
def empty(): return []
def triples(): return [(torch.zeros(3), 0, 1)] * 4
def raises(): raise RuntimeError("no licence")
def make():
    return {"model": network, "optimizer": plain, "batch": 4, "loss": nn.CrossEntropyLoss(), "data": pairs,
            "epochs": 7, "seed": 3}
"""
GOOD = {"model": "parts_of_it.py:network", "data": "parts_of_it.py:pairs", "loss": "cross_entropy"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "parts_of_it.py").write_text(PARTS)
    return tmp_path


def made(folder: Path, **section: object) -> Training:
    return training_of(value(TrainSection, read(TrainIn, section).model_dump(exclude_defaults=True)), folder)


def use(training: Training) -> None:
    training.optimizer(training.model().parameters())
    training.batch(2)


def test_named_parts_train_as_if_they_were_written_by_hand(folder: Path) -> None:
    training = made(folder, **GOOD, optimizer={"name": "sgd", "lr": 0.25, "momentum": 0.5}, batch=4, epochs=2)
    assert (training.size, training.epochs, training.seed) == (4, 2, 0)
    model = training.model()
    optimizer = training.optimizer(model.parameters())
    assert isinstance(optimizer, torch.optim.SGD)
    assert (optimizer.defaults["lr"], optimizer.defaults["momentum"]) == (0.25, 0.5)
    inputs, classes = training.batch(4)
    assert (inputs.shape, classes.tolist()) == ((4, 3), [0, 1, 0, 1])
    expected = nn.functional.cross_entropy(model(inputs), classes)
    assert training.loss(model, (inputs, classes)).item() == pytest.approx(expected.item())
    assert training.data is not None
    assert len(training.data()) == 5


def test_functions_take_the_place_of_names(folder: Path) -> None:
    section = {**GOOD, "loss": "parts_of_it.py:away", "optimizer": "parts_of_it.py:plain"}
    training = made(folder, **section)
    model = training.model()
    assert training.optimizer(model.parameters()).defaults["lr"] == 0.5
    assert training.size == 32
    assert 0 <= training.loss(model, training.batch(8)).item() <= 1


def test_a_make_function_is_taken_as_it_is_and_the_section_overrules_it(folder: Path) -> None:
    training = made(folder, make="parts_of_it.py:make")
    assert (training.size, training.epochs, training.seed) == (4, 7, 3)
    training = made(folder, make="parts_of_it.py:make", batch=6, epochs=1, seed=0)
    assert (training.size, training.epochs, training.seed) == (6, 1, 0)


def test_a_section_can_be_traced_without_a_gpu_and_without_touching_its_data(folder: Path) -> None:
    training = made(folder, **GOOD, optimizer="adam")
    weights = 4 * (3 * 2 + 2)
    assert trace(training, size=64).peak > trace(training, size=1).peak >= 4 * weights


@pytest.mark.parametrize(
    ("changed", "field", "words"),
    [
        ({"data": "parts_of_it.py:stream"}, "train.data", "with a length"),
        ({"data": "parts_of_it.py:empty"}, "train.data", "without samples"),
        ({"data": "parts_of_it.py:triples"}, "train.data", "pairs"),
        ({"data": "parts_of_it.py:raises"}, "train.data", "no licence"),
        ({"model": "parts_of_it.py:empty"}, "train.model", "gave list"),
        ({"model": "parts_of_it.py:raises"}, "train.model", "no licence"),
        ({"optimizer": "parts_of_it.py:away"}, "train.optimizer", "raised TypeError"),
    ],
)
def test_what_a_function_gives_is_looked_at(
    folder: Path, changed: dict[str, str], field: str, words: str
) -> None:
    training = made(folder, **{**GOOD, "optimizer": "adam", **changed})
    with pytest.raises(BadInput, match=words) as caught:
        use(training)
    assert caught.value.mistakes[0].field.startswith(field)


def test_all_functions_that_are_not_there_are_told_at_once(folder: Path) -> None:
    with pytest.raises(BadInput) as caught:
        made(folder, model="a.py:b", data="parts_of_it:none", loss="no_such_module_here:x", optimizer="adam")
    assert {one.field for one in caught.value.mistakes} == {"train.model", "train.data", "train.loss"}


def test_every_loss_that_can_be_named_is_one_of_torch() -> None:
    assert all(callable(getattr(nn.functional, name)) for name in LOSSES.values())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_that_can_be_named_takes_its_options(name: str) -> None:
    known = OPTIMIZERS[name]
    kind = getattr(torch.optim, known.torch)
    assert known.options <= set(inspect.signature(kind).parameters)
    for option, parameter in inspect.signature(kind).parameters.items():
        if option in known.options:
            assert isinstance(parameter.default, bool) == (option in FLAGS)
            assert isinstance(parameter.default, tuple) == (option in PAIRS)

"""The function that a user names becomes a training, or an answer that says what is wrong with it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
import torch

from grus.estimation.fake_tensor_trace import trace
from grus.estimation.script_loader import load
from grus.estimation.training_definition import Training
from grus.model.errors import BadInput

HEAD = """\
import torch
from torch import nn
from torch.nn import functional

def model():
    return nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))

def loss(model, batch):
    return functional.cross_entropy(model(batch[0]), batch[1])

def batch(count):
    return torch.randn(count, 8), torch.randint(0, 2, (count,))

def optimizer(parameters):
    return torch.optim.Adam(parameters, lr=0.25)
"""


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """Modules and search paths of one test are not those of the next."""
    modules, paths = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - modules:
        if getattr(sys.modules[name], "__file__", None) and "entry_code" in str(sys.modules[name].__file__):
            del sys.modules[name]
    sys.path[:] = paths


@pytest.fixture
def code(tmp_path: Path) -> Path:
    folder = tmp_path / "entry_code"
    folder.mkdir()
    return folder


def written(folder: Path, text: str, name: str = "train.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + dedent(text))
    return folder


def made(folder: Path, returned: str, size: int | None = None) -> Training:
    """The training of a function that returns this."""
    return load("train.py:make", written(folder, f"\ndef make():\n    return {returned}\n"), size)


def refused(folder: Path, returned: str) -> list[str]:
    with pytest.raises(BadInput) as error:
        made(folder, returned)
    return [str(mistake) for mistake in error.value.mistakes]


def test_functions_become_a_training(code: Path) -> None:
    found = made(code, "model, optimizer, batch, loss", size=6)
    assert (found.size, len(found.batch(6)[0]), found.epochs, found.seed) == (6, 6, 1, 0)
    assert trace(found).peak > 0


def test_things_become_a_training_and_each_use_has_its_own(code: Path) -> None:
    written(
        code,
        """
        def make():
            net = model()
            return net, torch.optim.SGD(net[2].parameters(), lr=0.5, momentum=0.9), batch(12), loss
        """,
    )
    found = load("train.py:make", code)
    assert found.size == 12
    one, two = found.model(), found.model()
    optimizer = found.optimizer(one.parameters())
    assert [len(group["params"]) for group in optimizer.param_groups] == [2]
    found.loss(one, found.batch(12)).backward()
    optimizer.step()
    assert torch.equal(one[0].weight, two[0].weight)  # type: ignore[index]  # a Sequential
    assert not torch.equal(one[2].weight, two[2].weight)  # type: ignore[index]  # a Sequential
    assert trace(found).peak > 0


def test_a_mapping_may_say_more(code: Path) -> None:
    found = made(
        code,
        "dict(model=model, optimizer=optimizer, batch=batch, loss=loss, size=5, "
        "epochs=3, seed=7, data=[1, 2])",
    )
    assert (found.size, found.epochs, found.seed) == (5, 3, 7)
    assert found.data is not None
    assert found.data() == [1, 2]


def test_data_may_be_named_by_its_class(code: Path) -> None:
    parts = "model=model, optimizer=optimizer, batch=batch, loss=loss, size=5"
    text = f"""
        class Data:
            def __len__(self):
                return 3
            def __getitem__(self, number):
                return number

        def make():
            return dict({parts}, data=Data)
        """
    found = load("train.py:make", written(code, text))
    assert found.data is not None
    assert len(found.data()) == 3


def test_a_number_of_samples_takes_them_from_the_data(code: Path) -> None:
    data = "[(torch.full((8,), float(n)), n % 2) for n in range(3)]"
    found = made(code, f"dict(model=model, optimizer=optimizer, batch=4, loss=loss, data={data})")
    assert [row[0].item() for row in found.batch(4)[0]] == [0, 1, 2, 0]
    assert found.size == 4


def test_a_loss_of_torch_is_given_output_and_target(code: Path) -> None:
    for loss in ("nn.CrossEntropyLoss()", "functional.cross_entropy"):
        found = made(code, f"model, optimizer, batch, {loss}", size=4)
        assert found.loss(found.model(), found.batch(4)).shape == ()


def test_a_package_and_a_file_beside_are_found(code: Path) -> None:
    written(code, "\ndef make():\n    return model, optimizer, batch(2), loss\n", "deep/inside.py")
    (code / "train.py").write_text("from deep.inside import make\n")
    assert load("deep.inside:make", code).size == load("train.py:make", code).size == 2


def test_a_file_that_belongs_to_a_package_is_answered_with_its_name(code: Path) -> None:
    written(code, "\nfrom .inside import make\n", "deep/train.py")
    with pytest.raises(BadInput, match=r"so name it as a module: deep\.train:function"):
        load("deep/train.py:make", code)


def test_a_file_with_the_name_of_a_library_is_still_found(code: Path) -> None:
    written(code, "\ndef make():\n    return model, optimizer, batch(2), loss\n", "torch.py")
    assert load("torch.py:make", code).size == 2
    assert sys.modules["torch"] is torch


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("train.py", "write file:function"),
        (":make", "write file:function"),
        ("none.py:make", "there is no file"),
        ("no_such_package:make", "No module named 'no_such_package'"),
        ("train.py:other", "has no function other; it has model, loss, batch, optimizer"),
        ("train.py:nn", "nn is not a function"),
    ],
)
def test_what_cannot_be_found_is_said(code: Path, target: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        load(target, written(code, ""))


@pytest.mark.parametrize(
    ("returned", "mistakes"),
    [
        ("None", ["train.py:make: must return (model, optimizer, batch, loss)"]),
        ("(model, optimizer)", ["found 2 things"]),
        (
            "dict(model=model, lr=3)",
            ["optimizer: is missing", "batch: is missing", "loss: is missing", "lr: is"],
        ),
        ("(1, 2, 3, 4)", ["model: must be", "optimizer: must be", "loss: must be", "batch: is a number"]),
        ("(model, optimizer, batch, loss)", ["so say how many: --batch"]),
        ("(model, optimizer, ['words'], loss)", ["batch: must be an example batch"]),
        ("(model(), optimizer(model().parameters()), batch(2), loss)", ["not the model's"]),
        ("(model, optimizer(model().parameters()), batch(2), loss)", ["since the model is a function"]),
        ("dict(model=model, optimizer=optimizer, batch=batch, loss=loss, size=0)", ["size: must be"]),
        (
            "dict(model=model, optimizer=optimizer, batch=batch(2), loss=loss, epochs='x')",
            ["epochs: must be"],
        ),
    ],
)
def test_every_mistake_of_what_was_returned_is_named(code: Path, returned: str, mistakes: list[str]) -> None:
    found = refused(code, returned)
    assert len(found) == len(mistakes)
    for mistake in mistakes:
        assert any(mistake in line for line in found), found


def test_functions_that_make_something_else_are_told_when_they_are_called(code: Path) -> None:
    found = made(code, "(lambda: 3), optimizer, batch(2), loss")
    with pytest.raises(BadInput, match="model: must return a torch Module"):
        found.model()
    found = made(code, "model, (lambda parameters: 3), batch(2), loss")
    with pytest.raises(BadInput, match="optimizer: must return a torch Optimizer"):
        found.optimizer([])


def test_an_error_of_the_users_code_says_where_in_their_files(code: Path) -> None:
    written(code, "\ndef make():\n    return inner()\n\ndef inner():\n    raise ValueError('no data here')\n")
    with pytest.raises(BadInput) as error:
        load("train.py:make", code)
    lines = str(error.value).splitlines()
    assert lines[0] == "train.py:make: raised ValueError: no data here"
    assert "train.py, line 18, in make: return inner()" in lines[1]
    assert "train.py, line 21, in inner: raise ValueError('no data here')" in lines[2]
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import sys; sys.exit(3)", r"ended the process \(sys.exit\(3\)\)"),
        ("def broken(:", "is not Python: .* line 16"),
        ("import no_such_library", "No module named 'no_such_library'"),
    ],
)
def test_a_file_that_cannot_be_imported_is_told_and_forgotten(code: Path, text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        load("train.py:make", written(code, text))
    assert "train" not in sys.modules

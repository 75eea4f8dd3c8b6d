"""Which model a section means: built by a function, exported, handed on by another job; or what is wrong."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from grus.api.inputs.serving_schema import ServeIn, serve_argv
from grus.api.parsing.validation_errors import read
from grus.elastic.training_loop.model_export import EXPORTED, load_exported, program, save_exported
from grus.model.errors import BadInput
from grus.model.train_serve_spec import ServeSection, on_command_line
from grus.serving.model_loader import INPUT, WEIGHTS, Served, served

CPU = torch.device("cpu")
NETS = """
import torch
from torch import nn

def network():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))

def other():
    return nn.Linear(5, 5)

def text():
    return "no model"

def broken():
    raise ValueError("no such file")

def best(model, inputs):
    return {"best": model(torch.tensor(inputs)).argmax(1)}

def alone(inputs):
    return len(inputs)
"""
X = torch.randn(5, 3)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(INPUT, raising=False)
    (tmp_path / "nets_to_serve.py").write_text(NETS)
    torch.manual_seed(0)
    trained = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    trained(X)  # moves the statistics, so that they matter
    (tmp_path / "out").mkdir()
    (tmp_path / "empty").mkdir()
    torch.save(trained.state_dict(), tmp_path / "out" / WEIGHTS)
    save_exported(program(trained, X), X, tmp_path / "out" / EXPORTED)
    return tmp_path


def expected(folder: Path) -> torch.Tensor:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    model.load_state_dict(torch.load(folder / "out" / WEIGHTS, weights_only=True))
    found: torch.Tensor = model.eval()(X).detach()
    return found


def serve(folder: Path, **section: Any) -> Served:
    return served(on_command_line(ServeSection, serve_argv(read(ServeIn, section))[-1:]), folder, CPU)


@pytest.mark.parametrize("weights", ["out", f"out/{WEIGHTS}"])
def test_a_function_with_weights_answers_as_the_trained_model_does(folder: Path, weights: str) -> None:
    found = serve(folder, model="nets_to_serve.py:network", weights=weights)
    assert found.forward is not None
    assert torch.allclose(found.forward(X), expected(folder))
    assert str(folder / "out" / WEIGHTS) in found.about


@pytest.mark.parametrize("model", ["out", f"out/{EXPORTED}"])
def test_an_exported_model_needs_no_code_and_knows_its_samples(folder: Path, model: str) -> None:
    (folder / "nets_to_serve.py").unlink()
    found = serve(folder, model=model)
    assert found.forward is not None
    assert torch.allclose(found.forward(X), expected(folder))
    assert len(found.forward(torch.randn(17, 3))) == 17
    assert (found.form.shape, found.form.dtype) == ((3,), torch.float32)


def test_of_a_folder_of_trainings_the_newest_model_is_served(folder: Path) -> None:
    kept = folder / "trainings"
    for number, name in enumerate(("old", "new")):
        (kept / name).mkdir(parents=True)
        for file in (WEIGHTS, EXPORTED):
            shutil.copy(folder / "out" / file, kept / name / file)
            os.utime(kept / name / file, (1000 + number, 1000 + number))
    assert str(kept / "new") in serve(folder, model="trainings").about
    assert str(kept / "new") in serve(folder, model="nets_to_serve.py:network", weights="trainings").about


def test_without_a_model_of_its_own_the_input_is_served(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(INPUT, str(folder / "out"))
    for section in ({}, {"model": "nets_to_serve.py:network"}):
        found = serve(folder, **section)
        assert found.forward is not None
        assert torch.allclose(found.forward(X), expected(folder))


def test_a_function_of_the_users_own_answers_with_the_model_or_without(folder: Path) -> None:
    found = serve(folder, model="nets_to_serve.py:network", weights="out", predict="nets_to_serve.py:best")
    assert found.predict is not None
    assert found.predict(X.tolist())["best"].tolist() == expected(folder).argmax(1).tolist()
    alone = serve(folder, predict="nets_to_serve.py:alone")
    assert alone.predict is not None
    assert alone.predict([1, 2]) == 2


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({}, "serve.model: is needed"),
        ({"model": "nets_to_serve.py:nobody"}, "has no function nobody; it has network"),
        ({"model": "nobody.py:network"}, "there is no file"),
        ({"model": "nets_to_serve.py:text"}, "must give a torch.nn.Module, and gave str"),
        ({"model": "nets_to_serve.py:broken"}, "no such file"),
        ({"model": "nets_to_serve.py:network", "weights": "nowhere.pt"}, "cannot be read"),
        ({"model": "nets_to_serve.py:other", "weights": "out"}, "are not this model's"),
        ({"model": "nets_to_serve.py:network", "weights": "nets_to_serve.py"}, "are not this model's"),
        ({"model": "nowhere.pt2"}, "is not there"),
        ({"model": "empty"}, f"has no {EXPORTED} in it"),
        ({"model": "nets_to_serve.py"}, "is not an exported model"),
        ({"model": f"out/{WEIGHTS}"}, "is not an exported model"),
        ({"predict": "nets_to_serve.py:nobody"}, "has no function nobody"),
    ],
)
def test_what_cannot_be_served_is_told_with_the_field(
    folder: Path, section: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadInput) as caught:
        serve(folder, **section)
    assert words in str(caught.value)


def test_weights_cannot_run_code(folder: Path) -> None:
    torch.save({"weight": print}, folder / "evil.pt")
    with pytest.raises(BadInput, match="are not this model's"):
        serve(folder, model="nets_to_serve.py:network", weights="evil.pt")


def test_an_export_keeps_the_model_in_its_mode_and_takes_any_number_of_samples(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.9))
    save_exported(program(model, X), X, tmp_path / EXPORTED)
    assert model.training
    found, sample = load_exported(tmp_path / EXPORTED, CPU)
    assert sample is not None
    assert sample.shape == (3,)
    assert torch.allclose(found(X[:1]), model.eval()(X[:1]))
    assert [one.name for one in tmp_path.iterdir()] == [EXPORTED]


class Choosy(nn.Module):
    """Looks at its numbers before it decides what to do."""

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        return samples * 2 if samples.sum().item() > 0 else samples


def test_what_torch_cannot_follow_is_told_as_a_mistake() -> None:
    with pytest.raises(BadInput, match=r"train.export: is not possible"):
        program(Choosy(), X)
    with pytest.raises(BadInput, match="one tensor"):
        program(Choosy(), {"a": X})

"""`grus split` of a user's function, which runs in a child process."""

import json
from pathlib import Path

import pytest

from tests.cli.commands.test_split_plan import grus, virtual


def test_a_users_function_is_split_in_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        "import torch\n"
        "def make():\n"
        "    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(8)))\n"
        "    loss = lambda model, batch: model(batch).square().mean()\n"
        "    return model, torch.optim.Adam(model.parameters()), torch.zeros(64, 512), loss\n"
    )
    found = grus(
        "train.py:make",
        "--gpus",
        f"2x{virtual(25)}",
        "--micro",
        "4",
        "-o",
        "json",
    )
    assert found.exit_code == 0, found.stderr
    assert set(json.loads(found.stdout)["places"].values()) == {0, 1}


def test_a_model_whose_path_depends_on_its_data_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        "import torch\n"
        "class Moody(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        return super().forward(x) if x.sum() > 0 else x\n"
        "def make():\n"
        "    model = Moody(8, 8)\n"
        "    loss = lambda model, batch: model(batch).square().mean()\n"
        "    return model, torch.optim.Adam(model.parameters()), torch.zeros(4, 8), loss\n"
    )
    found = grus("train.py:make", "--gpus", "2xRTX3060")
    assert found.exit_code == 2
    assert "train.py" in found.stderr
    assert "its path depends on numbers that are known only" in found.stderr

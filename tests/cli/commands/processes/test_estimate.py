"""`grus estimate`: a table, JSON, and clear answers to code that cannot be estimated; no server, no GPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from grus.cli.main import app

CODE = """\
import os, sys, time
import torch
from torch import nn
from torch.nn import functional

def make():
    model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 4096), nn.ReLU(), nn.Linear(4096, 10)).to("cuda")
    batch = torch.randn(64, 3, 32, 32).cuda(), torch.randint(0, 10, (64,), device="cuda")
    return model, torch.optim.Adam(model.parameters()), batch, loss

def loss(model, batch):
    with torch.autocast("cuda", torch.bfloat16):
        return functional.cross_entropy(model(batch[0]), batch[1])

def data():
    return [(torch.zeros(3, 32, 32), 0)] * 4

def wrong_shape():
    model, optimizer, batch, _ = make()
    return model, optimizer, (batch[0][:, :1], batch[1]), loss

def many():
    model, optimizer, batch, _ = make()
    return model, optimizer, batch, lambda model, batch: model(batch[0])

def endless():
    while True:
        time.sleep(1)  # it is to be ended by its limit

def huge():
    def model():
        with torch.device("meta"):
            return nn.Sequential(nn.Flatten(), nn.Linear(3072, 1 << 24), nn.Linear(1 << 24, 10))
    return model, torch.optim.SGD, lambda n: (torch.zeros(n, 3072), torch.zeros(n).long()), loss
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRUS_DEBUG", raising=False)
    return tmp_path


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["estimate", *words])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.usefixtures("folder")
def test_people_see_a_table_with_the_parts_and_the_biggest_batch() -> None:
    code, out, err = run("train.py:make", "--gpu", "RTX3060", "--gpu", "virtual-1GB")
    assert code == 0, err
    assert "12.6 million parameters, batch of 64" in out
    lines = [line.split() for line in out.splitlines()]
    real, pretended = lines[3:5]
    assert (real[0], real[4]) == ("RTX3060", "yes")
    assert int(real[-1]) > int(pretended[-1]) > 64
    assert " ".join(lines[6]) == "OF IT WEIGHTS GRADIENTS OPTIMIZER ACTIVATIONS WORKSPACE CONTEXT"
    assert lines[7][3] == "151.5MB"  # two numbers for each parameter, and one for a moment
    assert "The fastest that fits: RTX3060; ask for `gpu: " in out
    assert "tracing a batch of 64" in err


@pytest.mark.usefixtures("folder")
def test_programs_get_json_and_a_batch_that_does_not_fit_is_said() -> None:
    code, out, err = run("train.py:make", "--gpu", "200MB", "--batch", "8", "--no-biggest", "-o", "json")
    assert code == 0, err
    answer = json.loads(out)
    assert (answer["batch"], answer["parameters"]) == (8, 4096 * 3073 + 10 * 4097)
    [one] = answer["estimates"]
    assert (one["gpu"], one["memory"], one["fits"], one["perhaps"]) == ("200MB", 200 * 10**6, False, False)
    assert one["estimate"] == sum(one["parts"].values()) <= one["upper"]
    assert "biggest_batch" not in one


def test_the_section_of_a_job_file_is_estimated(folder: Path) -> None:
    section = "{make: train.py:make, data: train.py:data, batch: 16, strategy: bf16}"
    (folder / "job.yaml").write_text(f"name: a\ntrain: {section}\nresources: {{gpu: auto}}\n")
    code, out, err = run("job.yaml", "--gpu", "A100", "--no-biggest", "-o", "json")
    assert code == 0, err
    answer = json.loads(out)
    assert (answer["batch"], answer["estimates"][0]["strategy"]) == (16, "bf16")
    (folder / "other.yaml").write_text("name: a\nrun: python train.py\n")
    code, _, err = run("other.yaml")
    assert code == 2
    assert "must have one job with a `train` section" in err


@pytest.mark.usefixtures("folder")
def test_strategies_are_compared_by_memory_speed_and_traffic() -> None:
    code, out, err = run("train.py:make", "--gpu", "A100", "--compare", "--workers", "2", "-o", "json")
    assert code == 0, err
    found = {one["strategy"]: one for one in json.loads(out)["estimates"]}
    assert {"ddp", "zero1", "zero2", "fsdp", "bf16", "checkpoint", "offload", "powersgd"} <= {*found}
    assert found["zero1"]["parts"]["optimizer"] < 0.6 * found["ddp"]["parts"]["optimizer"]
    assert found["powersgd"]["traffic"] < found["fp16-gradients"]["traffic"] < found["ddp"]["traffic"]
    assert all(one["workers"] == 2 and one["seconds"] > 0 for one in found.values())


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train.py:wrong_shape"], "train.py, line 13, in loss: return functional.cross_entropy("),
        (["train.py:many"], "loss: must return one number as a tensor"),
        (["train.py:nothing"], "has no function nothing; it has make, loss, data"),
        (["train.py:endless", "--limit", "2s"], "did not end within 2s while running train.py:endless"),
        (["train.py:make", "--batch", str(10**18)], "batch: is more than 1,000,000,000 samples"),
    ],
)
def test_code_that_cannot_be_estimated_is_answered_with_the_reason(words: list[str], said: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.usefixtures("folder")
def test_a_model_far_larger_than_this_machine_is_estimated() -> None:
    code, out, err = run("train.py:huge", "--batch", "2", "--gpu", "H200", "--no-biggest")
    assert code == 0, err
    assert "51.7 billion parameters" in out
    assert "It does not fit: take a smaller --batch" in out


def test_every_mistake_of_the_options_is_named_at_once() -> None:
    options = ("--gpu", "RTX306", "--gpu", "24G", "--limit", "soon", "--strategy", "fsdp")
    code, _, err = run("train.py:make", *options)
    assert code == 2
    assert "4 mistakes" in err
    assert "workers: must be two or more for fsdp" in err
    assert "did you mean RTX3060?" in err


def test_the_command_itself_loads_no_torch(folder: Path) -> None:
    program = (
        "import sys; sys.argv = ['grus', 'estimate', 'train.py:none']\n"
        "from grus.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=folder
    )
    assert done.stdout == "False\n"
    assert "has no function none" in done.stderr

"""A `train:` section trains on a real pool: two workers, a worker that is lost, and the model at the end."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from grus.api.inputs.job_schema import JobIn
from grus.api.inputs.job_spec import to_spec
from grus.api.inputs.yaml_job_file import parse_job_file
from grus.elastic.training_loop.model_export import load_exported
from grus.elastic.training_loop.validation import mine
from grus.estimation.script_loader import function
from grus.model.jobs import Phase
from tests.elastic.harness import ROOT, Pool

EXAMPLES = Path(__file__).parents[2] / "examples"
DIGITS = {
    "model": "digits.py:network",
    "data": "digits.py:pictures",
    "loss": "cross_entropy",
    "optimizer": {"name": "adam", "lr": 0.001},
    "batch": 64,
    "epochs": 1,
}
MAKE = """
import torch
from digits import network, pictures

def make():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    def loss(model, batch):
        pictures, classes = batch
        return torch.nn.functional.cross_entropy(model(pictures), classes)
    return {"model": model, "optimizer": optimizer, "batch": 64, "loss": loss, "data": pictures, "epochs": 2}
"""


UNEXPORTABLE = """
import digits
from torch import nn

class Choosy(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = digits.network()

    def forward(self, x):
        return self.inner(x) if x.sum().item() > 0 else -self.inner(x)

def network():
    return Choosy()
"""


def alone(folder: Path, section: object) -> subprocess.CompletedProcess[str]:
    said = section if isinstance(section, str) else json.dumps(section)
    command = [sys.executable, "-m", "grus.elastic.section", said]
    return subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=300)


def losses(said: str) -> list[float]:
    return [float(found) for found in re.findall(r"loss ([\d.]+)$", said, re.MULTILINE)]


def test_the_example_trains_on_two_workers_and_survives_the_loss_of_one(tmp_path: Path) -> None:
    (job,) = parse_job_file((EXAMPLES / "digits.yaml").read_text(), folder=str(EXAMPLES))
    given = job.model_dump(by_alias=True, exclude_unset=True, mode="json")
    given["train"] |= {"epochs": 15}
    given["resources"] = {"gpu": 2}
    given["checkpoint"] = {"path": str(tmp_path / "out")}
    (tmp_path / "out").mkdir()
    with Pool(tmp_path, gpus=2) as pool:
        made = JobIn.model_validate(given)
        spec = to_spec(made)
        id_ = pool.services.actions.submit(ROOT, spec, launch_given=made.launch_given).result().id
        pool.until(lambda: "2 workers: loss" in "\n".join(pool.logs(id_).values()))
        pool.kill(id_, 0)
        ended = pool.until_phase(id_, Phase.SUCCEEDED, Phase.FAILED, seconds=120)
        said = "\n".join(pool.logs(id_).values())
    assert ended.phase is Phase.SUCCEEDED, said
    assert (ended.attempt, ended.failures) == (1, 0)
    assert losses(said)[-1] < losses(said)[0] / 2
    weights = torch.load(tmp_path / "out" / id_ / "model.pt", weights_only=True)
    assert weights["0.weight"].shape == (16, 1, 3, 3)
    assert f"the trained model is in {tmp_path / 'out' / id_ / 'model.pt'}" in said


def test_a_make_function_says_everything_in_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MAKE)
    (tmp_path / "digits.py").write_text((EXAMPLES / "digits.py").read_text())
    done = alone(tmp_path, {"make": "train.py:make", "strategy": "checkpoint"})
    assert done.returncode == 0, done.stderr
    assert len(losses(done.stdout)) >= 20
    assert losses(done.stdout)[-1] < losses(done.stdout)[0] / 2
    assert "epoch 1, 1 worker" in done.stdout


def test_it_is_judged_by_unseen_data_and_exported_after_the_last_epoch(tmp_path: Path) -> None:
    (tmp_path / "digits.py").write_text((EXAMPLES / "digits.py").read_text())
    judged = {"validation": "digits.py:unseen", "metric": "accuracy", "export": True, "epochs": 2}
    given = {
        "train": {**DIGITS, **judged},
        "resources": {"gpu": 2},
        "workdir": str(tmp_path),
        "checkpoint": {"path": str(tmp_path / "out")},
    }
    with Pool(tmp_path, gpus=2) as pool:
        made = JobIn.model_validate(given)
        id_ = pool.services.actions.submit(ROOT, to_spec(made), launch_given=made.launch_given).result().id
        ended = pool.until_phase(id_, Phase.SUCCEEDED, Phase.FAILED, seconds=120)
        said = "\n".join(pool.logs(id_).values())
        told = dict(ended.progress)
    assert ended.phase is Phase.SUCCEEDED, said
    found = re.findall(r"after epoch (\d): validation_loss ([\d.]+), accuracy ([\d.]+)", said)
    assert [epoch for epoch, _, _ in found] == ["1", "2"]
    weights = torch.load(tmp_path / "out" / id_ / "model.pt", weights_only=True)
    accuracy, loss = measured(weights, tmp_path)
    assert told["accuracy"] == pytest.approx(accuracy, abs=1e-3)
    assert told["validation_loss"] == pytest.approx(loss, rel=1e-3)
    exported, sample = load_exported(tmp_path / "out" / id_ / "model.pt2", torch.device("cpu"))
    pictures = torch.randn(3, 1, 12, 12)
    assert torch.allclose(exported(pictures), network(weights)(pictures), atol=1e-6)
    assert sample is not None
    assert sample.shape == (1, 12, 12)


def network(weights: dict[str, torch.Tensor]) -> torch.nn.Module:
    found: torch.nn.Module = function("digits.py:network", EXAMPLES)()
    found.load_state_dict(weights)
    return found.eval()


def measured(weights: dict[str, torch.Tensor], folder: Path) -> tuple[float, float]:
    """What one process finds that goes through the same data in one go."""
    pictures, classes = function("digits.py:unseen", folder)().tensors
    output = network(weights)(pictures)
    right = (output.argmax(1) == classes).float().mean()
    return right.item(), torch.nn.functional.cross_entropy(output, classes).item()


@pytest.mark.parametrize(
    ("samples", "world", "batch"), [(10, 1, 4), (10, 3, 2), (1, 4, 8), (64, 2, 32), (65, 2, 32)]
)
def test_every_sample_is_judged_once_in_as_many_passes_on_every_worker(
    samples: int, world: int, batch: int
) -> None:
    shares = [mine(samples, rank, world, batch) for rank in range(world)]
    assert len({len(share) for share in shares}) == 1
    assert sorted(number for share in shares for numbers in share for number in numbers) == [*range(samples)]
    assert all(len(numbers) <= batch for share in shares for numbers in share)


def test_what_cannot_be_exported_is_told_before_anything_is_trained(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(UNEXPORTABLE)
    (tmp_path / "digits.py").write_text((EXAMPLES / "digits.py").read_text())
    done = alone(tmp_path, {**DIGITS, "model": "nets.py:network", "export": True})
    assert done.returncode == 2
    assert "train.export: is not possible" in done.stderr
    assert losses(done.stdout) == []


def test_a_strategy_that_cannot_be_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "digits.py").write_text((EXAMPLES / "digits.py").read_text())
    done = alone(tmp_path, {**DIGITS, "strategy": "plain powersgd"})
    assert done.returncode == 2
    assert "do not go together" in done.stderr


def test_all_that_cannot_be_found_is_told_at_once_and_ends_the_worker(tmp_path: Path) -> None:
    (tmp_path / "digits.py").write_text((EXAMPLES / "digits.py").read_text())
    wrong = {"model": "digits.py:net", "data": "figures.py:all", "loss": "digits:error"}
    done = alone(tmp_path, {**DIGITS, **wrong})
    assert done.returncode == 2
    told = sorted(line.split(":")[1].strip() for line in done.stderr.splitlines())
    assert told == ["train.data", "train.loss", "train.model"]
    assert "it has network, pictures" in done.stderr


@pytest.mark.parametrize("section", ["{", "[]", '{"model": "a"}'])
def test_a_section_that_is_none_ends_the_worker_with_its_mistakes(tmp_path: Path, section: str) -> None:
    done = alone(tmp_path, section)
    assert done.returncode == 2
    assert all(line.startswith("error: ") for line in done.stderr.splitlines())


def test_a_section_that_is_to_be_split_trains_in_parts_on_two_workers(tmp_path: Path) -> None:
    (tmp_path / "digits.py").write_text((EXAMPLES / "digits.py").read_text())
    section = {**DIGITS, "strategy": "split", "epochs": 2}
    given = {"train": section, "resources": {"gpu": 2}, "workdir": str(tmp_path)}
    with Pool(tmp_path, gpus=2) as pool:
        made = JobIn.model_validate(given)
        id_ = pool.services.actions.submit(ROOT, to_spec(made), launch_given=made.launch_given).result().id
        ended = pool.until_phase(id_, Phase.SUCCEEDED, Phase.FAILED, seconds=180)
        said = "\n".join(pool.logs(id_).values())
    assert ended.phase is Phase.SUCCEEDED, said
    assert "split into 2 stages" in said
    assert losses(said)[-1] < losses(said)[0] / 2
    weights = torch.load(tmp_path / "checkpoints" / id_ / "model.pt", weights_only=True)
    assert weights["0.weight"].shape == (16, 1, 3, 3)


def test_weights_that_are_cut_up_are_left_whole(tmp_path: Path) -> None:
    (tmp_path / "digits.py").write_text((EXAMPLES / "digits.py").read_text())
    given = {"train": {**DIGITS, "strategy": "fsdp"}, "resources": {"gpu": 2}, "workdir": str(tmp_path)}
    with Pool(tmp_path, gpus=2) as pool:
        made = JobIn.model_validate(given)
        id_ = pool.services.actions.submit(ROOT, to_spec(made), launch_given=made.launch_given).result().id
        ended = pool.until_phase(id_, Phase.SUCCEEDED, Phase.FAILED, seconds=180)
        said = "\n".join(pool.logs(id_).values())
    assert ended.phase is Phase.SUCCEEDED, said
    weights = torch.load(tmp_path / "checkpoints" / id_ / "model.pt", weights_only=True)
    assert (type(weights["0.weight"]), weights["0.weight"].shape) == (torch.Tensor, (16, 1, 3, 3))


def test_a_plan_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "digits.py").write_text((EXAMPLES / "digits.py").read_text())
    done = alone(tmp_path, {**DIGITS, "plan": "plan.json"})
    assert done.returncode == 2
    assert "train.plan: cannot be read: No such file" in done.stderr


def test_it_needs_nothing_of_the_servers_distribution(tmp_path: Path) -> None:
    (tmp_path / "digits.py").write_text((EXAMPLES / "digits.py").read_text())
    foreign = ("fastapi", "httpx2", "msgspec", "psutil", "pydantic", "scipy", "uvicorn", "websockets", "yaml")
    program = f"""
import runpy, sys
sys.modules.update(dict.fromkeys({foreign!r}))
runpy.run_module("grus.elastic.section", run_name="__main__")
"""
    command = [sys.executable, "-c", program, json.dumps(DIGITS)]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert losses(done.stdout)[-1] < losses(done.stdout)[0]


def test_a_split_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "digits.py").write_text((EXAMPLES / "digits.py").read_text())
    program = """
import runpy, sys
sys.modules["msgspec"] = None
runpy.run_module("grus.elastic.section", run_name="__main__")
"""
    command = [sys.executable, "-c", program, json.dumps({**DIGITS, "strategy": "split"})]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "split needs msgspec: pip install 'grus-gpu-sdk[split]'" in done.stderr

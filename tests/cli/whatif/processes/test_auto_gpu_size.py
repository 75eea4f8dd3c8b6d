"""`gpu: auto` at `grus submit`: what is estimated and sent, and what is said when nothing can be told."""

from pathlib import Path

import pytest

from grus.api.wire_types.pool import GpuOut, NodeOut, StatusOut
from grus.cli import connection
from grus.model.texts.units import parse_bytes
from tests.cli.conftest import Grus
from tests.cli.fake import FakeClient

PARTS = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

def network(): return nn.Sequential(nn.Linear(100, 1000), nn.ReLU(), nn.Linear(1000, 10))
def pairs(): return TensorDataset(torch.zeros(64, 100), torch.zeros(64, dtype=torch.long))
def raises(): raise RuntimeError("no licence for this")
def make():
    model = network()
    return model, torch.optim.SGD(model.parameters(), lr=0.1), pairs()[:8], nn.CrossEntropyLoss()
"""
SECTION = """
name: digits
train: {model: parts.py:MODEL, data: parts.py:pairs, loss: cross_entropy, optimizer: adam, batch: 16}
resources: {gpu: auto}
"""
SCRIPT = """
name: mine
run: python mine.py
resources: {gpu: auto}
"""
WEIGHTS = 4 * (100 * 1000 + 1000 + 1000 * 10 + 10)


class Pool(FakeClient):
    """Two virtual GPUs of two sizes."""

    def nodes(self) -> list[NodeOut]:
        gpus = (
            GpuOut(id="a/0", type="virtual-4GB", memory=4 * 10**9),
            GpuOut(id="a/1", type="x", memory=10**9),
        )
        return [NodeOut(id="a", gpus=gpus)]

    def status(self) -> StatusOut:
        return super().status().model_copy(update={"mechanisms": {"gpus": "virtual (1x1x4GB+1x1x1GB:x)"}})


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake = Pool()
    monkeypatch.setattr(connection, "connect", lambda **_: fake)
    return fake


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "parts.py").write_text(PARTS)
    return tmp_path


def written(folder: Path, text: str) -> str:
    file = folder / "job.yaml"
    file.write_text(text)
    return str(file)


def test_a_section_is_sent_with_the_way_that_was_found(grus: Grus, client: FakeClient, folder: Path) -> None:
    result = grus("submit", written(folder, SECTION.replace("MODEL", "network")))
    assert result.exit_code == 0, result.stderr
    ((job, _),) = client.submitted
    assert job.resources.ways is not None
    (way,) = job.resources.ways
    assert (way.gpus, way.how, way.speed) == (1, "", 1.0)
    assert way.memory is not None
    assert 4 * WEIGHTS < parse_bytes(way.memory) < 10**9
    assert "digits: a batch of 16 takes about" in result.stderr


def test_a_script_is_estimated_by_the_function_that_it_names(
    grus: Grus, client: FakeClient, folder: Path
) -> None:
    text = SCRIPT.replace("{gpu: auto}", "{gpu: auto, estimate: parts.py:make}")
    result = grus("submit", written(folder, text))
    assert result.exit_code == 0, result.stderr
    ((job, _),) = client.submitted
    assert job.resources.ways is not None
    assert len(job.resources.ways) == 1
    assert "a batch of 8 takes about" in result.stderr


def test_code_that_raises_here_is_submitted_without_an_estimate_and_that_is_said(
    grus: Grus, client: FakeClient, folder: Path
) -> None:
    result = grus("submit", written(folder, SECTION.replace("MODEL", "raises")))
    assert result.exit_code == 0, result.stderr
    assert client.submitted[0][0].resources.ways is None
    assert "could not be estimated; it gets what runs like it took, else one whole GPU" in result.stderr
    assert "no licence for this" in result.stderr


def test_a_function_that_is_not_there_is_refused_before_anything_is_submitted(
    grus: Grus, client: FakeClient, folder: Path
) -> None:
    result = grus("submit", written(folder, SECTION.replace("MODEL", "nets").replace("pairs", "pears")))
    assert result.exit_code == 2
    assert not client.submitted
    assert "train.model" in result.stderr
    assert "train.data" in result.stderr
    assert "it has network, pairs, raises, make" in result.stderr


def test_a_script_without_such_a_function_is_told_what_it_gets(
    grus: Grus, client: FakeClient, folder: Path
) -> None:
    result = grus("submit", written(folder, SCRIPT))
    assert result.exit_code == 0, result.stderr
    assert client.submitted[0][0].resources.ways is None
    assert "mine: nothing to estimate by" in result.stderr


def test_nothing_is_estimated_for_those_who_do_not_want_it(
    grus: Grus, client: FakeClient, folder: Path
) -> None:
    result = grus("submit", written(folder, SECTION.replace("MODEL", "raises")), "--no-estimate")
    assert result.exit_code == 0, result.stderr
    assert client.submitted[0][0].resources.ways is None
    assert "estimate" not in result.stderr


def test_a_type_that_the_pool_does_not_have_is_not_estimated(
    grus: Grus, client: FakeClient, folder: Path
) -> None:
    text = SECTION.replace("MODEL", "network").replace("gpu: auto", "gpu: A100:auto")
    result = grus("submit", written(folder, text))
    assert client.submitted[0][0].resources.ways is None
    assert "no GPU of the pool is of a type that it may have" in result.stderr


def test_a_command_is_run_with_the_memory_that_its_function_shows(
    grus: Grus, client: FakeClient, folder: Path
) -> None:
    assert folder == Path.cwd()
    result = grus("run", "-d", "--gpu", "auto", "--estimate", "parts.py:make", "--", "python", "mine.py")
    assert result.exit_code == 0, result.stderr
    assert client.submitted[0][0].resources.ways is not None

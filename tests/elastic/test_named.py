"""Training by name: models, data, losses and optimizers are found by their usual names, or refused."""

import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from grus.elastic.named.models import BLOCKS, model
from grus.elastic.named.records import dataset, example
from grus.model.errors import BadInput

SIDE = 32
PARAMETERS = {"resnet18": 11_689_512, "resnet50": 25_557_032}
"""Of the networks for a thousand classes, as torchvision's documentation gives them."""


def varint(value: int) -> bytes:
    out = b""
    value &= (1 << 64) - 1
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def an_example(features: Mapping[str, bytes | list[int] | list[float]]) -> bytes:
    """A `tf.train.Example` as TensorFlow writes it."""
    entries = b""
    for name, value in features.items():
        if isinstance(value, bytes):
            feature = field(1, field(1, value))
        elif isinstance(value[0], float):
            feature = field(2, field(1, struct.pack(f"<{len(value)}f", *value)))
        else:
            feature = field(3, field(1, b"".join(varint(int(one)) for one in value)))
        entries += field(1, field(1, name.encode()) + field(2, feature))
    return field(1, entries)


def a_file(path: Path, count: int = 16) -> Path:
    """Small pictures of two classes, told apart by their brightness."""
    with path.open("wb") as file:
        for number in range(count):
            label = number % 2
            picture = bytes([200 * label + number]) * (SIDE * SIDE * 3)
            content = an_example({"image_raw": picture, "label": [label]})
            file.write(struct.pack("<QI", len(content), 0) + content + b"\0" * 4)
    return path


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_residual_networks_have_the_published_number_of_parameters(name: str) -> None:
    made = model(name, channels=3, classes=1000)
    assert sum(one.numel() for one in made.parameters()) == PARAMETERS[name]


@pytest.mark.parametrize("name", BLOCKS)
def test_every_network_takes_small_pictures(name: str) -> None:
    with torch.no_grad():
        assert model(name, channels=1, classes=7).eval()(torch.zeros(2, 1, 32, 32)).shape == (2, 7)


def test_an_unknown_model_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(BadInput, match="resnet50"):
        model("alexnet-of-nobody", channels=3, classes=2)


def test_examples_are_read_as_they_were_written() -> None:
    found = example(an_example({"a": b"xyz", "b": [3, -1, 300], "c": [0.5, 2.0]}))
    assert found == {"a": [b"xyz"], "b": [3, -1, 300], "c": [0.5, 2.0]}


def test_pictures_and_classes_come_out_of_a_record_file(tmp_path: Path) -> None:
    pictures, labels = dataset(str(a_file(tmp_path / "train.tfrecord"))).tensors
    assert pictures.shape == (16, 3, SIDE, SIDE)
    assert labels.tolist() == [0, 1] * 8
    assert pictures[1, 0, 0, 0].item() == pytest.approx(201 / 255)


@pytest.mark.parametrize(
    "content", [b"", b"\x05", b"\xff" * 40, struct.pack("<QI", 10**9, 0) + b"x" * 40], ids=range(4)
)
def test_a_file_that_holds_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.tfrecord"
    path.write_bytes(content)
    with pytest.raises(BadInput, match="data"):
        dataset(str(path))


def test_the_program_trains_to_the_end_and_says_its_loss(tmp_path: Path) -> None:
    path = a_file(tmp_path / "train.tfrecord")
    done = run(
        "--model", "resnet18", "--data", str(path), "--loss", "cross-entropy", "--epochs", "2", "--batch", "8"
    )
    assert done.returncode == 0, done.stderr
    losses = [float(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()]
    assert len(losses) == 4
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("words", "field_"),
    [(("--loss", "nobodys"), "loss"), (("--optimizer", "lion3"), "optimizer"), (("--data", "/none"), "data")],
)
def test_what_it_does_not_know_ends_it_with_one_line(words: tuple[str, ...], field_: str) -> None:
    done = run("--model", "resnet18", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {field_}: ")
    assert len(done.stderr.splitlines()) == 1


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "grus.elastic.named", *words], check=False, capture_output=True, text=True
    )

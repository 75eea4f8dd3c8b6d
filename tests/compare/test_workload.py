"""A job file as the one description of what is compared."""

from pathlib import Path

import pytest

from grus.compare.workload import read
from grus.model.errors import BadInput


def written(folder: Path, text: str) -> Path:
    path = folder / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_plain_job_is_a_workload(tmp_path: Path) -> None:
    found = read(
        written(
            tmp_path,
            "name: biggan\nrun: python train.py\nsetup: pip --version\nresources: {gpu: 'V100:2'}\n"
            "env: {SEED: 7}\ndata: [./images, imagenet]\nmax_runtime: 2h\n",
        )
    )
    assert (found.name, found.argv) == ("biggan", ("/bin/sh", "-c", "python train.py"))
    assert (found.gpus, found.gpu_type, found.limit) == (2, "V100", 7200.0)
    assert (found.folder, found.env) == (tmp_path, (("SEED", "7"),))
    assert found.setup == ("pip --version",)
    assert found.data == ("./images",), "a name is no path, and cannot be hashed"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("run: a\nresources: {gpu: 2..8}", "another size is another workload"),
        ("run: a\nresources: {gpu: 0.5}", "must be whole GPUs"),
        ("run: a\nresources: {gpu: 'A100|H100:1'}", "one type of GPU at most"),
        ("run: a\nresources: {gpu: 2}\nlaunch: per-gpu", "must be once"),
        ("roles: {a: {run: x}, b: {run: y}}", "one command that starts all its processes"),
        ("run: a\n---\nrun: b", "must have one job"),
        ("run: a\nworkdir: nowhere", "must be a folder on this machine"),
    ],
)
def test_what_would_differ_by_itself_is_refused(tmp_path: Path, text: str, rule: str) -> None:
    with pytest.raises(BadInput) as caught:
        read(written(tmp_path, text))
    assert rule in str(caught.value)


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        read(written(tmp_path, "run: a\nresources: {gpu: 2..8}\nlaunch: per-gpu\nworkdir: nowhere"))
    assert [mistake.field for mistake in caught.value.mistakes] == ["launch", "resources.gpu", "workdir"]

"""The same work again is recognised by code, command, image and user, and told from other work."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from grus.controlplane.fingerprint import fingerprints
from grus.controlplane.fingerprint.fingerprints import code_digest, data_digest, program
from grus.model.identifiers import UserName
from grus.model.jobs import Spec
from tests.scheduler.builders import a_job

ADA, BOB = UserName("ada"), UserName("bob")


def a_spec(workdir: Path | str = "/nonexistent", *run: str) -> Spec:
    return replace(a_job("job").spec, workdir=str(workdir), run=run or ("python", "train.py"))


def code(workdir: Path, *run: str) -> str:
    return code_digest(a_spec(workdir, *run), containers=False)


def test_a_program_is_command_image_and_user_and_neither_size_nor_name() -> None:
    spec = a_spec()
    assert program(spec, ADA) == program(replace(a_job("other", gpus="2..4").spec, run=spec.run), ADA)
    others = [
        program(replace(spec, run=("python", "eval.py")), ADA),
        program(replace(spec, setup=("pip install .",)), ADA),
        program(replace(spec, image="other:2"), ADA),
        program(spec, BOB),
    ]
    assert len({program(spec, ADA), *others}) == 5


def test_code_that_changes_is_other_code_and_changed_back_the_same(tmp_path: Path) -> None:
    source = tmp_path / "lib" / "model.py"
    source.parent.mkdir()
    source.write_text("layers = 2")
    before = code(tmp_path)
    source.write_text("layers = 3")
    assert code(tmp_path) != before
    source.write_text("layers = 2")
    assert code(tmp_path) == before


def test_the_same_code_elsewhere_is_the_same_code(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text("pass")
    assert code(tmp_path / "one") == code(tmp_path / "two")


def test_what_a_job_leaves_beside_its_code_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("pass")
    before = code(tmp_path)
    for name in ("model.pt", "log.txt", "result.json", "__pycache__/train.pyc", ".git/hooks/x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert code(tmp_path) == before


@pytest.mark.parametrize(
    "run",
    [("python", "train.py", "big.yaml"), ("/bin/sh", "-c", "python train.py --config=big.yaml | tee log")],
)
def test_a_file_that_the_command_names_counts(tmp_path: Path, run: tuple[str, ...]) -> None:
    (tmp_path / "big.yaml").write_text("lr: 1")
    before = code(tmp_path, *run)
    (tmp_path / "big.yaml").write_text("lr: 2")
    assert code(tmp_path, *run) != before


def test_pipes_links_and_folders_that_are_not_there_hold_nobody_up(tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere.py"
    secret.write_text("1")
    folder = tmp_path / "code"
    folder.mkdir()
    os.mkfifo(folder / "pipe.py")
    (folder / "link.py").symlink_to(secret)
    before = code(folder)
    secret.write_text("2")
    assert code(folder) == before == code(tmp_path / "missing")


def test_reading_stops_at_its_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        (tmp_path / f"part{number}.py").write_text("x" * 10)
    monkeypatch.setattr(fingerprints, "MOST_SOURCES", 4)
    monkeypatch.setattr(fingerprints, "MOST_SOURCE_BYTES", 25)
    before = code(tmp_path)
    (tmp_path / "part8.py").write_text("beyond the last file")
    (tmp_path / "part2.py").write_text("y" * 10)
    assert code(tmp_path) == before
    (tmp_path / "part0.py").write_text("y" * 10)
    assert code(tmp_path) != before


def test_in_containers_code_is_what_its_bundle_is_called(tmp_path: Path) -> None:
    one, two = (code_digest(a_spec(f"bundle:{name}"), containers=True) for name in "ab")
    assert one != two
    (tmp_path / "train.py").write_text("pass")
    assert code_digest(a_spec(tmp_path), containers=True) == code_digest(a_spec(tmp_path), containers=True)


def test_data_is_new_when_a_file_comes_goes_or_changes(tmp_path: Path) -> None:
    files = tmp_path / "data"
    (files / "deep").mkdir(parents=True)
    (files / "deep" / "a.bin").write_bytes(b"1")
    digests = [data_digest([str(files)], containers=False)]
    assert data_digest([str(files)], containers=False) == digests[0]
    (files / "b.bin").write_bytes(b"1")
    digests.append(data_digest([str(files)], containers=False))
    (files / "b.bin").write_bytes(b"22")
    digests.append(data_digest([str(files)], containers=False))
    os.utime(files / "b.bin", ns=(1, 1))
    digests.append(data_digest([str(files)], containers=False))
    assert len(set(digests)) == 4


def test_a_name_of_data_is_itself_and_no_data_is_none() -> None:
    names = [["imagenet"], ["cifar"], ["imagenet", "cifar"], ["s3://bucket/x"]]
    assert len({data_digest(one, containers=False) for one in names}) == 4
    assert data_digest(["b", "a"], containers=False) == data_digest(["a", "b", "a"], containers=False)
    assert data_digest([], containers=False) == ""


def test_everything_beside_the_source_counts_but_for_what_is_left_there(tmp_path: Path) -> None:
    def digest() -> str:
        return fingerprints.files_digest(str(tmp_path), but=("out/model.pt", "ckpt"))

    (tmp_path / "raw.csv").write_text("1,2")
    first = digest()
    for name in ("train.py", "out/model.pt", "ckpt/step-1", "ckpt-0123456789abcdef/step-1", ".cache/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert digest() == first
    (tmp_path / "raw.csv").write_text("1,3")
    second = digest()
    assert second != first
    (tmp_path / "ckpt-data.csv").write_text("")
    assert digest() != second


def test_too_many_files_are_like_none_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprints, "MOST_SEEN", 5)
    for number in range(8):
        (tmp_path / f"{number}.csv").write_text("")
    assert fingerprints.files_digest(str(tmp_path), but=()) == ""

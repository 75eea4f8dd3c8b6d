"""Files that people name are read up to their limit only: what never ends is refused, too."""

import os
import threading
from pathlib import Path

import pytest

from grus.api.parsing.yaml_document import LARGEST
from grus.cli.commands.jobs import read_file
from grus.cli.commands.predict import _read
from grus.compare import workload
from grus.model.errors import BadInput
from grus.sdk.bounded_read import LARGEST_SETTINGS, read_at_most
from grus.sdk.state_paths import GrusPaths, find_token
from grus.server import config

ENDLESS = Path("/dev/zero")


def test_a_job_file_without_end_is_refused_by_its_size() -> None:
    with pytest.raises(BadInput, match="must be at most 1 MiB"):
        read_file(ENDLESS)
    with pytest.raises(BadInput, match="must be at most 1 MiB"):
        workload.read(ENDLESS)


def test_samples_without_end_are_refused_by_their_size() -> None:
    with pytest.raises(BadInput, match="must be at most 16384 KiB"):
        _read(f"@{ENDLESS}")


def test_settings_without_end_are_refused_by_their_size(tmp_path: Path) -> None:
    (tmp_path / "config.toml").symlink_to(ENDLESS)
    at = GrusPaths(config=tmp_path, state=tmp_path / "state")
    with pytest.raises(BadInput, match="must be at most 1024 KiB"):
        config.load(at)
    with pytest.raises(BadInput, match="must be at most 1024 KiB"):
        find_token({}, at)


def test_a_job_file_that_comes_through_a_fifo_in_pieces_is_read(tmp_path: Path) -> None:
    fifo = tmp_path / "job.yaml"
    os.mkfifo(fifo)

    def write() -> None:
        with fifo.open("wb", buffering=0) as file:
            file.write(b"run: ")
            file.write(b"python train.py\n")

    writer = threading.Thread(target=write)
    writer.start()
    (job,) = read_file(fifo)
    writer.join()
    assert job.run == "python train.py"


def test_no_more_than_one_byte_beyond_the_limit_is_read(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.write_bytes(b"x" * LARGEST_SETTINGS)
    assert len(read_at_most(whole, LARGEST_SETTINGS)) == LARGEST_SETTINGS
    assert len(read_at_most(ENDLESS, LARGEST)) == LARGEST + 1

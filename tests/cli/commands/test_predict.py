"""`grus predict`: what it reads, and what it says of inputs that are none."""

import json
from pathlib import Path

import pytest

from grus.cli.commands.predict import _read
from grus.model.errors import BadInput


def test_samples_are_read_alone_or_under_inputs_or_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "samples.json"
    file.write_text(json.dumps({"inputs": [[1]], "dtype": "int64"}))
    assert _read("[[1]]") == ([[1]], None)
    assert _read('{"inputs": [[1]]}') == ([[1]], None)
    assert _read(f"@{file}") == ([[1]], "int64")


@pytest.mark.parametrize("given", ["", "nonsense", "@/nowhere.json", '{"input": [1]}', "[" * 100_000])
def test_what_is_no_input_is_refused_before_anybody_is_asked(given: str) -> None:
    with pytest.raises(BadInput, match="inputs"):
        _read(given)

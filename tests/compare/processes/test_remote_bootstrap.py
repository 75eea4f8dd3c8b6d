"""What comes home on a log: whole, or not at all."""

import ast
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from grus.compare import remote_bootstrap
from grus.compare.backends import carrier_output
from grus.compare.environments import OUTPUT, RECORD
from grus.kubernetes.bundle.code_bundles import pack
from tests.contracts.engine_contract import until


def carried(folder: Path, *argv: str, pieces: str = "") -> subprocess.Popen[str]:
    """The carrier as it travels, with nothing of the project to be found."""
    program, task = folder / "carrier.py", folder / "task.json"
    program.write_text(carrier_output.source())
    task.write_text(carrier_output.task(str(folder / "work"), argv, pieces=pieces, run="run"))
    command = [sys.executable, "-I", str(program), str(task)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_what_a_program_printed_and_left_comes_home_among_other_lines(tmp_path: Path) -> None:
    line = f"mkdir run; printf 'a\\nb\\n' > run/{RECORD}; echo said > run/{OUTPUT}; echo printed; exit 3"
    log, _ = carried(tmp_path, "sh", "-c", line).communicate(timeout=300)
    parcel = carrier_output.opened(f"before\n{log}after\n")
    assert parcel is not None
    assert (parcel.code, parcel.printed) == (3, "printed\n")
    found = parcel.collected("run")
    assert (found.record, found.output) == ("a\nb\n", "said\n")


def test_the_bundle_is_unpacked_from_its_pieces(tmp_path: Path) -> None:
    (tmp_path / "bundle" / "code").mkdir(parents=True)
    (tmp_path / "bundle" / "code" / "big").write_bytes(os.urandom(2_000_000))
    (tmp_path / "bundle" / "code" / "venv").mkdir()
    packed = pack(tmp_path / "bundle", everything=True)
    assert len(packed.pieces) > 1
    (tmp_path / "pieces").mkdir()
    for number, content in enumerate(packed.pieces):
        (tmp_path / "pieces" / f"{number:02}").write_bytes(content)
    log, _ = carried(tmp_path, "ls", "code", pieces=str(tmp_path / "pieces")).communicate(timeout=300)
    parcel = carrier_output.opened(log)
    assert parcel is not None
    assert parcel.printed == "big\nvenv\n"
    assert (tmp_path / "work/code/big").read_bytes() == (tmp_path / "bundle/code/big").read_bytes()


def test_one_that_is_told_to_end_passes_it_on_and_sends_what_there_is(tmp_path: Path) -> None:
    line = (
        f"mkdir run; echo half > run/{RECORD}; trap 'exit 7' TERM; touch ready; while :; do sleep 0.01; done"
    )
    process = carried(tmp_path, "sh", "-c", line)
    until((tmp_path / "work" / "ready").exists)
    process.send_signal(signal.SIGTERM)
    log, _ = process.communicate(timeout=300)
    parcel = carrier_output.opened(log)
    assert parcel is not None
    assert (parcel.code, parcel.collected("run").record) == (7, "half\n")


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    log, _ = carried(tmp_path, "no-such-program").communicate(timeout=300)
    parcel = carrier_output.opened(log)
    assert parcel is not None
    assert parcel.code == 127
    assert "no-such-program" in parcel.printed


def test_of_a_file_that_is_too_large_the_first_line_and_the_last_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "record"
    file.write_text("first\n" + "".join(f"{number}\n" for number in range(1000)) + "last\n")
    found = remote_bootstrap.ends_of(str(file), 100).splitlines()
    assert (found[0], found[-1], len("".join(found)) < 200) == ("first", "last", True)
    assert all(line.isdecimal() for line in found[1:-1])


@pytest.mark.parametrize(
    "damage", [lambda log: log[:-40], lambda log: log.replace("H4sI", "H4sJ"), lambda _: "no"]
)
def test_a_parcel_that_is_cut_off_or_changed_is_none(damage: object, tmp_path: Path) -> None:
    whole = remote_bootstrap.parcel({"began": 1.0, "code": 0, "printed": "AAAA" * 100, "files": {}})
    assert carrier_output.opened(whole) is not None
    assert callable(damage)
    assert carrier_output.opened(damage(whole)) is None


def test_the_carrier_is_a_program_of_an_older_python_and_of_the_standard_library_alone() -> None:
    tree = ast.parse(carrier_output.source(), feature_version=(3, 8))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imported if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in imported if isinstance(node, ast.ImportFrom)}
    assert names <= set(sys.stdlib_module_names) | {"collections.abc"}


def test_a_task_is_json_whatever_its_words_are() -> None:
    words = ["python3", "a'b\"$(c)\n"]
    assert json.loads(carrier_output.task("/w", words))["argv"] == words

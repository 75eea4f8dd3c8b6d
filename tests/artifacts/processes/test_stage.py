"""The program around a job's own: it brings inputs, keeps outputs, and else looks like the program itself."""

import json
import signal
from pathlib import Path

import pytest

from grus.artifacts.artifact_upload import keep
from grus.artifacts.cache import fetch
from grus.artifacts.stage import NO_INPUT, NO_OUTPUT, NO_PROGRAM
from grus.model.worker_reports import stored_outputs
from tests.artifacts.builders import (
    NODE,
    PLENTY,
    a_folder,
    a_plan,
    a_vault,
    around,
    begin,
    contents,
    end_of,
    said,
)


def sh(text: str) -> list[str]:
    return ["/bin/sh", "-c", text]


def test_what_one_job_leaves_behind_is_what_the_next_one_finds(tmp_path: Path) -> None:
    vault = a_vault(tmp_path / "vault")
    plan = a_plan(vault.root, outputs=[["data", ""], ["model", str(tmp_path / "out" / "model.pt")]])
    first = around(plan, sh('echo 1 > "$GRUS_OUTPUT_DATA/one"; echo 2 > "$GRUS_OUTPUT_MODEL"'), tmp_path)
    assert first.text.count("kept output") == 2
    assert first.code == 0
    artefacts = {one.name: one for one in stored_outputs.artefacts(json.dumps(said(tmp_path)))}
    assert set(artefacts) == {"data", "model"}
    inputs = [["in-a", artefacts["data"].digest, "data"], ["in-b", artefacts["model"].digest, "model"]]
    second = around(
        a_plan(vault.root, job="j2", inputs=inputs),
        sh('cat "$GRUS_INPUT_IN_A/one" "$GRUS_INPUT_IN_B"; basename "$GRUS_INPUT_IN_B"'),
        tmp_path,
    )
    assert second.text.split() == ["1", "2", "model.pt"]
    assert not (vault.root / "work" / "j1").exists()


def test_the_jobs_own_last_words_stay_beside_what_was_kept(tmp_path: Path) -> None:
    vault = a_vault(tmp_path / "vault")
    line = '{"at": 1.0, "figures": {"loss": 0.5}}'
    plan = a_plan(vault.root, outputs=[["data", ""]])
    around(plan, sh(f"echo '{line}' >> $GRUS_REPORT; echo 1 > $GRUS_OUTPUT_DATA/one"), tmp_path)
    assert said(tmp_path)["figures"] == {"loss": 0.5}
    assert stored_outputs.artefacts(json.dumps(said(tmp_path)))


def test_a_line_that_was_cut_off_swallows_nothing(tmp_path: Path) -> None:
    vault = a_vault(tmp_path / "vault")
    plan = a_plan(vault.root, outputs=[["data", ""]])
    around(plan, sh("printf '{\"at\": ' >> $GRUS_REPORT; echo 1 > $GRUS_OUTPUT_DATA/one"), tmp_path)
    assert stored_outputs.artefacts(json.dumps(said(tmp_path)))


@pytest.mark.parametrize(
    ("script", "code"), [("exit 3", 3), ("kill -9 $$", -9), ("kill -SEGV $$", -11), ("exit 75", 75)]
)
def test_it_ends_as_its_program_did_and_keeps_nothing_of_a_failure(
    tmp_path: Path, script: str, code: int
) -> None:
    vault = a_vault(tmp_path / "vault")
    plan = a_plan(vault.root, outputs=[["data", ""]])
    process = around(plan, sh(f"echo 1 > $GRUS_OUTPUT_DATA/one; {script}"), tmp_path)
    assert process.code == code
    assert not (tmp_path / "report").exists()
    assert list(vault.kept("manifests")) == []


def test_a_request_to_stop_is_passed_on_and_what_a_paused_program_leaves_is_not_its_result(
    tmp_path: Path,
) -> None:
    vault = a_vault(tmp_path / "vault")
    plan = a_plan(vault.root, outputs=[["data", ""]])
    script = "trap 'echo 1 > $GRUS_OUTPUT_DATA/half; exit 0' TERM; echo ready; while :; do read x; done"
    process = begin(plan, ["/bin/bash", "-c", script.replace("read x", "sleep 0.05")], tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert end_of(process).code == 0
    assert not (tmp_path / "report").exists()
    assert contents(vault.root / "work" / "j1" / "data") == {"half": b"1\n"}


def test_a_program_that_dies_of_a_request_to_stop_makes_it_die_the_same_way(tmp_path: Path) -> None:
    vault = a_vault(tmp_path / "vault")
    process = begin(a_plan(vault.root), ["/bin/sh", "-c", "echo up; exec sleep 60"], tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert end_of(process).code == -signal.SIGTERM


def test_an_output_that_is_missing_fails_the_job_and_names_every_one(tmp_path: Path) -> None:
    vault = a_vault(tmp_path / "vault")
    outputs = [["data", ""], ["model", str(tmp_path / "model.pt")], ["log", str(tmp_path / "log")]]
    process = around(a_plan(vault.root, outputs=outputs), sh("echo 1 > log"), tmp_path)
    assert process.code == NO_OUTPUT
    trouble = stored_outputs.trouble(json.dumps(said(tmp_path)))
    assert "output data is missing" in trouble
    assert "output model is missing" in trouble
    assert "output log" not in trouble
    assert trouble in process.text
    assert stored_outputs.artefacts(json.dumps(said(tmp_path))) == ()


def test_an_input_that_is_not_kept_any_more_is_told_before_the_program_starts(tmp_path: Path) -> None:
    vault = a_vault(tmp_path / "vault")
    for digest in ("", "0" * 64):
        plan = a_plan(vault.root, inputs=[["data", digest, "output data of job j0"]])
        process = around(plan, sh("echo started"), tmp_path)
        assert "started" not in process.text
        assert process.code == NO_INPUT
        trouble = stored_outputs.trouble(json.dumps(said(tmp_path)))
        assert "input data" in trouble
        assert "output data of job j0" in trouble
        assert "kept" in trouble


def test_a_damaged_input_is_told_before_the_program_starts(tmp_path: Path) -> None:
    vault = a_vault(tmp_path / "vault")
    digest = keep(vault, a_folder(tmp_path / "data", {"a": b"x" * 1000})).digest
    (chunk,) = (vault.root / "chunks").glob("*/*")
    chunk.chmod(0o600)
    chunk.write_bytes(b"y" * 1000)
    process = around(a_plan(vault.root, inputs=[["data", digest, "it"]]), sh("echo started"), tmp_path)
    assert "started" not in process.text
    assert process.code == NO_INPUT
    assert "a chunk of a is changed on the disk" in str(said(tmp_path)["trouble"])


def test_only_the_first_of_a_team_keeps_what_they_made_together(tmp_path: Path) -> None:
    vault = a_vault(tmp_path / "vault")
    plan = a_plan(vault.root, keeps=None, outputs=[["data", ""]])
    make = sh("echo 1 > $GRUS_OUTPUT_DATA/one")
    (tmp_path / "control").write_text(json.dumps({"team": {"number": 2, "me": 1}}))
    around(plan, make, tmp_path, worker="0")
    assert not (tmp_path / "report").exists()
    (tmp_path / "control").write_text(json.dumps({"team": {"number": 2, "me": 0}}))
    around(plan, make, tmp_path, worker="3")
    assert stored_outputs.artefacts(json.dumps(said(tmp_path)))


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    vault = a_vault(tmp_path / "vault")
    process = around(a_plan(vault.root), ["no-such-program"], tmp_path)
    assert process.code == NO_PROGRAM
    assert said(tmp_path)["trouble"] == "no such command: no-such-program"


def test_inputs_stay_while_the_program_runs_and_may_go_when_it_has_ended(tmp_path: Path) -> None:
    from grus.artifacts.cache import trim

    vault = a_vault(tmp_path / "vault")
    digest = keep(vault, a_folder(tmp_path / "data", {"a": b"x"})).digest
    plan = a_plan(vault.root, inputs=[["data", digest, "it"]])
    process = begin(plan, sh("echo up; exec sleep 60"), tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    cache = vault.root / "cache" / NODE
    assert trim(cache, 0) == 0
    assert (cache / digest / "tree" / "a").read_bytes() == b"x"
    process.terminate()
    end_of(process)
    assert trim(cache, 0) == 1
    assert list(cache.iterdir()) == []
    fetch(vault, NODE, digest, PLENTY).give_back()

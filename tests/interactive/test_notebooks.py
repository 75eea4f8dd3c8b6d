"""From a notebook to a training job: what is kept, what is left out and named, and what is refused."""

import ast
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from grus.api.inputs.yaml_job_file import parse_job_file
from grus.interactive.notebooks import training
from grus.model.errors import BadInput


def a_notebook(*cells: tuple[str, str] | tuple[str, str, list[str]], **metadata: Any) -> str:
    made = [
        {"cell_type": kind, "source": source.splitlines(keepends=True), "metadata": {"tags": list(*tags)}}
        for kind, source, *tags in cells
    ]
    return json.dumps({"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


def test_the_script_does_what_the_cells_do_and_the_job_file_runs_it(tmp_path: Path) -> None:
    text = a_notebook(("markdown", "# Title\nwords"), ("code", "x = 6"), ("code", "y = x * 7"))
    made = training(text, "My Study!", gpu="0.5", queue="vision")
    assert set(made.files) == {"train_my_study.py", "train_my_study.yaml"}
    script = tmp_path / "train_my_study.py"
    script.write_text(made.files[script.name])
    assert runpy.run_path(str(script))["y"] == 42
    assert "# Title\n# words" in made.files[script.name]
    (job,) = parse_job_file(made.files["train_my_study.yaml"].encode(), folder=str(tmp_path))
    assert (job.name, job.queue, job.run) == ("my-study", "vision", ("python3", "train_my_study.py"))
    assert (job.type, job.resources.gpu) == ("train", "0.5")


def test_what_only_a_notebook_understands_is_left_out_and_named() -> None:
    text = a_notebook(
        ("code", "%matplotlib inline\nimport os\nif True:\n    !ls -l\nos.sep"),
        ("code", "%%bash\nrm -rf /"),
        ("code", "boom()", ["skip"]),
        ("code", "  \n"),
    )
    made = training(text, "n")
    ast.parse(made.files["train_n.py"])
    assert made.left_out == (
        "cell 1: %matplotlib inline",
        "cell 1: !ls -l",
        "cell 2: %%bash",
        "cell 3: it has the tag skip",
    )
    assert "rm -rf" not in made.files["train_n.py"]
    assert "boom" not in made.files["train_n.py"]


def test_what_is_installed_becomes_the_jobs_setup() -> None:
    made = training(a_notebook(("code", "!pip install -q einops\n%pip install 'tqdm>4'\nimport tqdm")), "n")
    (job,) = parse_job_file(made.files["train_n.yaml"].encode(), folder="/")
    assert job.setup == ("python3 -m pip install -q einops", "python3 -m pip install 'tqdm>4'")
    assert made.left_out == ()


def test_parameters_may_be_overruled_by_those_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = a_notebook(("code", "lr = 0.1\nwidth = 8", ["parameters"]), ("code", "seen = (lr, width)"))
    script = tmp_path / "script.py"
    script.write_text(training(text, "n").files["train_n.py"])
    assert runpy.run_path(str(script))["seen"] == (0.1, 8)
    monkeypatch.setenv("GRUS_PARAMS", '{"lr": 0.5}')
    assert runpy.run_path(str(script))["seen"] == (0.5, 8)


def test_every_cell_that_is_no_python_is_named() -> None:
    text = a_notebook(("code", "x = ("), ("code", "ok = 1"), ("code", "def f(:\n  pass"))
    with pytest.raises(BadInput) as refused:
        training(text, "n")
    assert [mistake.field for mistake in refused.value.mistakes] == ["cell 1", "cell 3"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "null", '{"cells": 3, "nbformat": 4}', '{"cells": [1], "nbformat": 4}', "[" * 100_000],
)
def test_what_is_no_notebook_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        training(text, "n")


def test_another_language_and_an_old_format_are_refused() -> None:
    with pytest.raises(BadInput, match="Python"):
        training(a_notebook(kernelspec={"language": "julia"}), "n")
    with pytest.raises(BadInput, match="version 4"):
        training('{"cells": [], "nbformat": 3}', "n")


@pytest.mark.parametrize("name", ['"""\nimport os', "a\\", "ünï", ""])
def test_a_name_cannot_become_code(name: str) -> None:
    made = training(a_notebook(("code", "x = 1")), name)
    (script,) = [text for file, text in made.files.items() if file.endswith(".py")]
    assert [type(one) for one in ast.parse(script).body] == [ast.Expr, ast.Assign]

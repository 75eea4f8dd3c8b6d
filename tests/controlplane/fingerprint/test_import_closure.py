"""Which files a stage runs, and that whatever cannot be followed makes all of them count."""

import json
from pathlib import Path

import pytest

from grus.controlplane.fingerprint.import_closure import reached
from grus.model.job_spec import TRAINER
from tests.controlplane.plane import a_spec

FILES = {
    "train.py": "import nets\nfrom lib.data import load\nimport torch, json\n",
    "nets.py": "def network():\n    import lib.layers\n",
    "lib/__init__.py": "",
    "lib/data.py": "from . import formats\nfrom .deep.more import x\n",
    "lib/layers.py": "model.eval()\nre.compile('x')\n",
    "lib/formats.py": "",
    "lib/deep/__init__.py": "",
    "lib/deep/more.py": "from ..layers import y\n",
    "lib/unused.py": "",
    "evaluate.py": "import lib.unused\n",
    "tools/go.py": "import beside\n",
    "tools/beside.py": "",
    "go.sh": "python train.py\n",
    "config.yaml": "a: 1\n",
}
ALL_OF_TRAIN = [
    *("lib/__init__.py", "lib/data.py", "lib/deep/__init__.py", "lib/deep/more.py", "lib/formats.py"),
    *("lib/layers.py", "nets.py", "train.py"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def of(folder: Path, *run: str, setup: tuple[str, ...] = ()) -> list[str] | None:
    return reached(a_spec("job", workdir=str(folder), run=run, setup=setup))


def test_a_script_reaches_what_it_imports_and_nothing_else(folder: Path) -> None:
    assert of(folder, "python", "train.py", "--config", "config.yaml") == ALL_OF_TRAIN
    assert of(folder, "/bin/sh", "-c", "cd . && python3 train.py | tee log") == ALL_OF_TRAIN
    assert of(folder, "python", "evaluate.py") == ["evaluate.py", "lib/__init__.py", "lib/unused.py"]


def test_a_script_in_a_folder_finds_its_neighbours(folder: Path) -> None:
    assert of(folder, "python", "tools/go.py") == ["tools/beside.py", "tools/go.py"]


def test_a_module_is_run_by_its_name(folder: Path) -> None:
    assert of(folder, "python", "-m", "lib.formats") == ["lib/formats.py"]


def test_a_train_section_reaches_the_files_of_its_functions(folder: Path) -> None:
    section = {
        "model": "nets.py:network",
        "data": "lib.data:load",
        "loss": "mse",
        "optimizer": {"name": "sgd"},
    }
    found = of(folder, *TRAINER, json.dumps(section))
    assert found is not None
    assert {"nets.py", "lib/data.py", "lib/layers.py"} <= set(found)
    assert "train.py" not in found


@pytest.mark.parametrize(
    "run",
    [
        ("./go.sh",),
        ("/bin/sh", "-c", "cat $GRUS_INPUT_DATA"),
        ("python", "-c", "import nets"),
        ("python", "-m", "somewhere.else"),
        ("python", "no-such-file.py"),
        (*TRAINER, json.dumps({"model": "gone.py:network"})),
    ],
)
def test_where_no_file_can_be_followed_all_source_counts(folder: Path, run: tuple[str, ...]) -> None:
    assert of(folder, *run) is None


@pytest.mark.parametrize(
    "text",
    [
        "import importlib\n",
        "from subprocess import run\n",
        "import sys\nsys.path.append('lib')\n",
        "exec(open('x').read())\n",
        "__import__('nets')\n",
        "import os\nos.system('python other.py')\n",
        "this is no python\n",
        "def f(:\n",
    ],
)
def test_code_that_loads_code_in_ways_of_its_own_makes_all_source_count(folder: Path, text: str) -> None:
    (folder / "lib" / "formats.py").write_text(text)
    assert of(folder, "python", "train.py") is None
    assert of(folder, "python", "evaluate.py") is not None


def test_a_setup_that_names_a_script_counts_with_it(folder: Path) -> None:
    found = of(folder, "python", "evaluate.py", setup=("python tools/go.py",))
    assert found is not None
    assert "tools/beside.py" in found
    assert of(folder, "python", "evaluate.py", setup=("pip install -r wanted.txt",)) is not None
    assert of(folder, "python", "evaluate.py", setup=("sh go.sh",)) is None


def test_a_link_to_a_file_elsewhere_is_not_followed(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret.py"
    outside.write_text("")
    (folder / "nets.py").unlink()
    (folder / "nets.py").symlink_to(outside)
    assert of(folder, "python", "train.py") is None

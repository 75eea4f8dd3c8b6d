"""Two distributions: what runs inside a job stands alone, and every file belongs to exactly one of them."""

import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import grimp
import pytest

from tests.house.environments import ROOT, build_wheels, make_environment, packages_of

SOURCE = ROOT / "src"
TORCH = frozenset({"torch", "numpy"})
SPLIT = frozenset({"msgspec", "psutil", "scipy"})
NEEDS = {
    "grus.elastic": TORCH | SPLIT,
    "grus.estimation": TORCH | SPLIT,
    "grus.partition": TORCH | SPLIT,
    "grus.serving": TORCH | {"uvicorn"},
}
"""Packages of the SDK that need more than the standard library; the others need nothing."""
IN_A_JOB = (
    "grus.artifacts.archive",
    "grus.artifacts.stage",
    "grus.artifacts.gc",
    "grus.interactive.lab",
    "grus.interactive.session",
    "grus.interactive.shell",
    "grus.sdk.worker",
)
"""Programs and modules of a job without torch."""


def project(path: str) -> dict[str, dict[str, object]]:
    return tomllib.loads((ROOT / path / "pyproject.toml").read_text())


def sdk_modules(graph: grimp.ImportGraph) -> set[str]:
    hatch: dict[str, dict[str, dict[str, dict[str, list[str]]]]] = project(".")["tool"]["hatch"]  # type: ignore[assignment]
    found = set()
    for path in hatch["build"]["targets"]["wheel"]["exclude"]:
        name = path.removeprefix("/src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        found |= {name} if path.endswith(".py") else {name, *graph.find_descendants(name)}
    return found


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(
        "grus", include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both, by the name of the distribution."""
    return build_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, wheels: dict[str, Path]) -> Path:
    """The interpreter of an environment that holds the SDK and nothing else."""
    return make_environment(tmp_path_factory.mktemp("environment"), wheels["grus-gpu-sdk"])


def run(python: Path, program: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [python, "-I", "-c", program], env={}, capture_output=True, text=True, check=False, timeout=300
    )


def files(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("grus/")}


def metadata(wheel: Path) -> "dict[str, list[str]]":
    archive = zipfile.ZipFile(wheel)
    name = next(one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
    found = message_from_bytes(archive.read(name))
    return {key: found.get_all(key) or [] for key in set(found.keys())}


def test_modules_of_the_sdk_import_only_each_other_and_what_their_extra_installs(
    graph: grimp.ImportGraph,
) -> None:
    own = sdk_modules(graph)
    wrong = []
    for module in sorted(own - {"grus"}):
        allowed = NEEDS.get(".".join(module.split(".")[:2]), frozenset()) | sys.stdlib_module_names
        for imported in sorted(graph.find_modules_directly_imported_by(module)):
            inside = imported in own if imported.startswith("grus") else imported.split(".")[0] in allowed
            wrong += [] if inside else [f"{module} imports {imported}"]
    assert wrong == []


def test_every_file_is_in_exactly_one_wheel(wheels: dict[str, Path]) -> None:
    assert set(wheels) == {"grus-gpu", "grus-gpu-sdk"}
    server, sdk = files(wheels["grus-gpu"]), files(wheels["grus-gpu-sdk"])
    there = {
        str(path.relative_to(SOURCE))
        for path in (SOURCE / "grus").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert server & sdk == set()
    assert server | sdk == there


def test_the_sdk_depends_on_nothing_and_the_server_on_the_sdk_of_its_version(wheels: dict[str, Path]) -> None:
    sdk, server = metadata(wheels["grus-gpu-sdk"]), metadata(wheels["grus-gpu"])
    assert [one for one in sdk["Requires-Dist"] if "extra ==" not in one] == []
    assert sdk["Version"] == server["Version"]
    assert f"grus-gpu-sdk=={sdk['Version'][0]}" in server["Requires-Dist"]
    (version,) = sdk["Version"]
    assert f'__version__ = "{version}"' in (SOURCE / "grus" / "__init__.py").read_text()


def test_both_are_under_the_same_license(wheels: dict[str, Path]) -> None:
    texts = [
        zipfile.ZipFile(wheel).read(name)
        for wheel in wheels.values()
        for name in zipfile.ZipFile(wheel).namelist()
        if name.endswith("/licenses/LICENSE")
    ]
    assert texts == [(ROOT / "LICENSE").read_bytes()] * 2


def test_the_command_runs_from_both_wheels(wheels: dict[str, Path], tmp_path: Path) -> None:
    python = make_environment(tmp_path, *wheels.values())
    # Dependencies of this environment without Grus itself, whose path only its own .pth files add.
    (packages_of(tmp_path) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    done = run(python, "import grus, sys; from grus.cli.main import main; print(grus.Client, grus.__file__)")
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) in done.stdout


def test_what_a_job_without_torch_runs_needs_only_the_standard_library(bare: Path) -> None:
    done = run(bare, f"import importlib; [importlib.import_module(name) for name in {IN_A_JOB}]")
    assert done.returncode == 0, done.stderr


def test_a_script_reports_and_reads_its_parameters_with_the_sdk_alone(bare: Path, tmp_path: Path) -> None:
    report = tmp_path / "report"
    program = f"""
import os
os.environ.update(GRUS_PARAMS='{{"lr": 0.5}}', GRUS_REPORT={str(report)!r})
import grus
grus.report(step=7, lr=grus.params()["lr"])
"""
    done = run(bare, program)
    assert done.returncode == 0, done.stderr
    assert '"figures": {"step": 7.0, "lr": 0.5}' in report.read_text()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Client", "grus.Client needs the distribution grus-gpu: pip install grus-gpu"),
        ("Job", "grus.Job needs the distribution grus-gpu: pip install grus-gpu"),
        ("train", "grus.train needs torch: pip install 'grus-gpu-sdk[torch]'"),
    ],
)
def test_a_name_of_another_distribution_is_refused_with_the_command_that_installs_it(
    bare: Path, name: str, message: str
) -> None:
    done = run(bare, f"import grus; grus.{name}")
    assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: {message}"


@pytest.mark.parametrize("section", ["grus.elastic.section", "grus.serving.replica"])
def test_programs_with_torch_say_what_to_install(bare: Path, section: str) -> None:
    done = run(bare, f"import runpy; runpy.run_module({section!r}, run_name='__main__')")
    assert "pip install 'grus-gpu-sdk[" in done.stderr.splitlines()[-1]


def test_no_page_and_no_message_installs_the_program_of_somebody_else() -> None:
    wrong = re.compile(r"pip3? install (?:-\S+ )*['\"`]?grus(?!-gpu)")
    places = ("src", "docs", "examples", "deploy", "tools", "packaging")
    pages = [*ROOT.glob("*.md"), *(path for place in places for path in (ROOT / place).rglob("*"))]
    text = {path: path.read_bytes().decode(errors="replace") for path in pages if path.is_file()}
    assert text
    assert [str(path) for path, content in text.items() if wrong.search(content)] == []

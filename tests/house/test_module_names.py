"""Modules that are named in texts are there: a move cannot break a `-m` program or a page unnoticed."""

from pathlib import Path

import pytest

from tests.house.module_names import ROOT, Named, named_in, resolves, texts

MADE_UP = {
    "grus.cut": "a key of an ASGI scope",
    "grus.format": "a key of a command's context",
    "grus.service": "a unit of systemd",
    "grus.test": "a logger",
    "grus.workers": "a control group",
    "tests.trust.there_is_no_such_part": "a program that cannot be run",
    "tests.trust.x": "a program that is never run",
    "tests.trust.proof": "a file of a made-up tree",
    "tests.trust.served": "a file of a made-up tree",
    "tests.trust:imported": "a file of a made-up tree",
}
"""Names that look like ours and are no modules."""

LIB = """
TABLE = {}
first, second = 1, 2
if TABLE:
    from os import sep

class Engine:
    limit: int = 0
    def start(self): ...

async def serve(): ...
"""
PROGRAM = '''"""Started by `python -m tests.lib`."""
import tests.ignored_since_python_finds_it_itself

COMMAND = ["-m", "tests.gone"]  # as tests.too does
CODE = f"""
from tests.lib import TABLE, missing
tests.lib.Engine.start({COMMAND})
"""
'''


@pytest.fixture(scope="module")
def everything() -> list[Named]:
    """All names in this repository, but for those made up here."""
    return [one for path in texts(ROOT) if path != Path(__file__) for one in named_in(path)]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tests" / "deep").mkdir(parents=True)
    (tmp_path / "tests" / "lib.py").write_text(LIB)
    (tmp_path / "tests" / "program.py").write_text(PROGRAM)
    (tmp_path / "src" / "grus").mkdir(parents=True)
    (tmp_path / "src" / "grus" / "__init__.py").write_text("from os import getpid as report\n")
    (tmp_path / "Makefile").write_text("run:\n\tpython -m grus.gone  # writes docs/benchmarks.md\n")
    (tmp_path / "README.md").write_text("Call `grus.report(1)`; it is kept in grus.db by `grus.dev/job`.\n")
    return tmp_path


def test_every_module_that_a_text_names_is_there(everything: list[Named]) -> None:
    lost = [
        f"{one.path.relative_to(ROOT)}:{one.line}: {one.name}"
        for one in everything
        if one.name not in MADE_UP and not resolves(one.name)
    ]
    assert not lost, "name what is there, or add a name that is no module to MADE_UP:\n" + "\n".join(lost)


def test_names_are_found_in_strings_comments_pages_and_recipes_but_not_in_code(tree: Path) -> None:
    found = {(one.path.name, one.line, one.name) for path in texts(tree) for one in named_in(path)}
    assert found == {
        ("program.py", 1, "tests.lib"),
        ("program.py", 4, "tests.gone"),
        ("program.py", 4, "tests.too"),
        ("program.py", 6, "tests.lib"),
        ("program.py", 6, "tests.lib:TABLE"),
        ("program.py", 6, "tests.lib:missing"),
        ("program.py", 7, "tests.lib.Engine.start"),
        ("Makefile", 2, "grus.gone"),
        ("README.md", 1, "grus.report"),
    }


@pytest.mark.parametrize(
    "name",
    [
        *("tests.lib", "tests.deep", "tests:lib", "tests.lib:TABLE", "tests.lib.second", "tests.lib:sep"),
        *("tests.lib.Engine.limit", "tests.lib:Engine.start", "tests.lib.serve", "grus.report"),
        *("tests.lib.TABLE.items", "grus.__file__"),
    ],
)
def test_a_module_a_folder_and_what_a_module_defines_resolve(tree: Path, name: str) -> None:
    assert resolves(name, tree)


@pytest.mark.parametrize(
    "name",
    [
        *("tests.gone", "tests.gone:main", "tests.deep.gone", "tests.lib.missing", "tests.lib:Engine.stop"),
        *("tests.lib.serve.result", "grus.train", "grus.cli.main:main", "tools.deploy"),
    ],
)
def test_what_is_not_there_does_not_resolve(tree: Path, name: str) -> None:
    assert not resolves(name, tree)


def test_every_exception_is_still_needed(everything: list[Named]) -> None:
    assert {one.name for one in everything} >= set(MADE_UP)
    assert not [name for name in MADE_UP if resolves(name)]

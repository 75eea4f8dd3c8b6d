"""Another state of the sources begins where something changes that a proof runs, and only there."""

from pathlib import Path

import pytest

from tests.trust.parts import PARTS, Part
from tests.trust.sources import ROOT, reached, state_of

PROGRAM = '''
"""Its server is tests.trust.served."""
from tests.trust import imported
CATCHES = "tests/store/test_kept.py::test_it"
SCRIPT = FOLDER / "by_name.py"
'''
FILES = {
    "src/grus/model.py": "",
    "src/grus/page.html": "",
    "tests/conftest.py": "",
    "tests/trust/proof.py": PROGRAM,
    "tests/trust/imported.py": "import tests.fakes.engine",
    "tests/fakes/engine.py": "",
    "tests/trust/served.py": "",
    "tests/trust/faults.c": "",
    "tests/store/test_kept.py": "",
    "tests/live/by_name.py": "",
    "tests/cli/test_ps.py": "",
    "constraints.txt": "",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", sorted(FILES.keys() - {"tests/cli/test_ps.py"}))
def test_a_change_of_what_a_proof_runs_makes_another_state(root: Path, name: str) -> None:
    before = state_of("tests.trust.proof", root)
    assert state_of("tests.trust.proof", root) == before
    with (root / name).open("a") as file:
        file.write("\n# changed\n")
    assert state_of("tests.trust.proof", root) != before


def test_a_change_of_a_test_that_a_proof_does_not_lead_to_makes_none(root: Path) -> None:
    before = state_of("tests.trust.proof", root)
    (root / "tests/cli/test_ps.py").write_text("changed = True")
    assert state_of("tests.trust.proof", root) == before


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_the_program_of_every_part_is_found_and_the_table_is_no_part_of_it(part: Part) -> None:
    files = {str(path.relative_to(ROOT)) for path in reached(part.program, ROOT)}
    assert part.program.replace(".", "/") + ".py" in files
    assert "tests/trust/table.py" not in files


def test_what_proofs_run_by_path_is_found() -> None:
    assert ROOT / "tests/trust/fuzz.py" in reached("tests.trust.attack", ROOT)
    assert ROOT / "tests/live/rhythm_program.py" in reached("tests.trust.detection", ROOT)
    assert ROOT / "tests/store/test_sqlite.py" in reached("tests.trust.planted", ROOT)

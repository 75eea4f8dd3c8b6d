"""The notebooks of the documentation show what their code gives today."""

from pathlib import Path
from typing import Any

import pytest

from tools.notebook import executed, read

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def shown(notebook: dict[str, Any]) -> list[str]:
    """What a reader sees of each cell's outputs, as text."""
    data = [
        value
        for cell in notebook["cells"]
        for output in cell.get("outputs", ())
        for value in (output.get("data") or {"text/plain": output["text"]}).values()
    ]
    return ["".join(lines) for lines in data]


def test_there_is_a_notebook() -> None:
    assert [path.name for path in NOTEBOOKS] == ["split-or-wait.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_shows_what_its_code_gives(path: Path) -> None:
    kept = read(path)
    assert len(shown(kept)) > 5
    assert shown(executed(kept, FOLDER)) == shown(kept)

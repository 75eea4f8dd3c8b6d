"""Notebooks are executed as Jupyter would: in order, in their folder, with what they show kept."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tools.notebook import executed, text


def a_notebook(*cells: str) -> dict[str, Any]:
    made: list[dict[str, Any]] = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": [cell]}
        for cell in cells
    ]
    return {
        "cells": [{"cell_type": "markdown", "metadata": {}, "source": ["# A title"]}, *made],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 4,
    }


def outputs(notebook: dict[str, Any]) -> list[Any]:
    return [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_what_a_cell_prints_and_the_value_of_its_last_line_are_kept(tmp_path: Path) -> None:
    notebook = a_notebook("a = 2", "print(a)\nprint(3)\na + 5", "None")
    first, second, third = outputs(executed(notebook, tmp_path))
    assert first == third == []
    printed, shown = second
    assert printed == {"output_type": "stream", "name": "stdout", "text": ["2\n", "3\n"]}
    assert (shown["output_type"], shown["execution_count"]) == ("execute_result", 2)
    assert shown["data"] == {"text/plain": ["7"]}


def test_a_value_that_can_be_drawn_is_kept_as_it_is_drawn(tmp_path: Path) -> None:
    cell = "class Dot:\n  def _repr_svg_(self): return '<svg/>'\n  def __repr__(self): return 'dot'\nDot()"
    (shown,) = outputs(executed(a_notebook(cell), tmp_path))
    assert shown[0]["data"] == {"text/plain": ["dot"], "image/svg+xml": ["<svg/>"]}


def test_it_runs_in_its_folder_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("VALUE = 4")
    (tmp_path / "data.txt").write_text("words")
    reading = "from pathlib import Path\nPath('data.txt').read_text()"
    notebook = a_notebook("import beside\nbeside.VALUE", reading)
    first, second = outputs(executed(notebook, tmp_path))
    assert first[0]["data"]["text/plain"] == ["4"]
    assert second[0]["data"]["text/plain"] == ["'words'"]
    assert "beside" not in sys.modules
    assert str(tmp_path) not in sys.path


def test_a_cell_that_raises_ends_it(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        executed(a_notebook("1 / 0", "print('never')"), tmp_path)


def test_executing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    once = executed(a_notebook("print('ä')", "[1, 2]"), tmp_path)
    assert text(executed(once, tmp_path)) == text(once)

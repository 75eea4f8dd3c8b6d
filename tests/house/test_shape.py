"""Rules for the shape and the language of the code: small folders, unique names, plain docstrings."""

import ast
import re
from pathlib import Path

import pytest

from tools import shape

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
CODE = re.compile(r"`[^`]*`|\"[^\"]*\"|\bgrus(\.\w+)+|\[\w+\]|\b\w+/")
"""Names in the code, which keep their words until they are renamed."""
ROW = re.compile(r"^\| (?P<retired>.+?) \| (?P<use>.+?) \| `(?P<pattern>.+)` \|$", re.M)


@pytest.fixture(scope="module")
def source() -> list[shape.Module]:
    return shape.modules()


def retired() -> list[tuple[str, re.Pattern[str]]]:
    """Patterns of retired words in the glossary, each with the words to use instead."""
    rows = ROW.finditer(GLOSSARY.read_text(encoding="utf-8"))
    return [(row["use"], re.compile(row["pattern"].replace(r"\|", "|"), re.I)) for row in rows]


def module_of(text: str) -> shape.Module:
    return shape.Module(Path("package/module.py"), text, ast.parse(text))


def test_no_folder_has_too_many_modules(source: list[shape.Module]) -> None:
    assert shape.large_folders(source) == {}


def test_a_class_name_is_defined_in_few_modules(source: list[shape.Module]) -> None:
    assert shape.repeated_classes(source) == {}


def test_docstrings_name_the_thing_first(source: list[shape.Module]) -> None:
    assert shape.questions(source) == []


def test_docstrings_have_no_retired_words(source: list[shape.Module]) -> None:
    patterns = retired()
    assert len(patterns) > 10
    found = [
        f"{one.path}:{node.lineno}: {match[0]!r}: use {use}"
        for one in source
        for node, text in shape.docstrings(one)
        for use, pattern in patterns
        if (match := pattern.search(CODE.sub("", text)))
    ]
    assert not found, "\n".join(found)


def test_the_rules_find_what_they_forbid() -> None:
    bad = module_of('"""Whether it fits."""\nLIMIT = 1\n"""How many."""\n')
    assert shape.questions([bad]) == ["package/module.py:1: Whether", "package/module.py:3: How"]
    twice = [shape.Module(Path(f"{n}.py"), "", ast.parse("class _Run: ...")) for n in range(3)]
    assert shape.repeated_classes(twice) == {"Run": ["0.py", "1.py", "2.py"]}
    many = [shape.Module(Path(f"folder/{n}.py"), "", ast.parse("")) for n in range(26)]
    assert shape.large_folders(many) == {"folder": 26}
    assert any(pattern.search("the work goes on") for _, pattern in retired())


def test_code_lines_leave_out_blank_lines_comments_and_docstrings() -> None:
    assert shape.code_lines(module_of('"""Text\n\nmore."""\n\n# why\nvalue = 1  # what\n')) == 1

"""Placeholders in the command of a sweep, as a real shell reads them."""

import subprocess

import pytest

from grus.api.job_spec import SHELL
from grus.api.jobfile import parse_job_file
from grus.api.placeholders import fill, unknown_names
from grus.model.errors import BadInput

NASTY = [
    "a b",
    "it's",
    '"',
    "$HOME",
    "$(echo no)",
    "`echo no`",
    "a\\b",
    "; echo no",
    "-x",
    "é*",
    "{lr}",
    "a\nb",
]


def printed(command: str, **values: object) -> list[str]:
    """The arguments that the shell gives to a program."""
    run = fill((*SHELL, command), SHELL, values)  # type: ignore[arg-type]  # plain values
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]


@pytest.mark.parametrize("value", NASTY)
@pytest.mark.parametrize(
    ("around", "before", "after"),
    [("{x}", "", ""), ("--x={x}", "--x=", ""), ('"<{x}>"', "<", ">"), ("'<{x}>'", "<", ">")],
)
def test_a_value_is_one_argument_wherever_it_stands(value: str, around: str, before: str, after: str) -> None:
    assert printed(f"printf '%s\\0' {around} end", x=value) == [before + value + after, "end"]


def test_numbers_and_truth_are_written_as_in_json() -> None:
    found = fill(
        ("train.py", "--lr", "{lr}", "--n={n}", "{flag}"), SHELL, {"lr": 1e-05, "n": 64, "flag": True}
    )
    assert found == ("train.py", "--lr", "1e-05", "--n=64", "true")


def test_arguments_of_a_list_are_not_for_a_shell() -> None:
    assert fill(("echo", "{x}"), SHELL, {"x": "it's $HOME"}) == ("echo", "it's $HOME")


def test_braces_that_are_no_placeholder_stay() -> None:
    command = """echo ${lr} {a,b} {1..3} {} '{"lr": 1}' '{print}' {{lr}} "${HOME}/{lr}" """
    found = fill((*SHELL, command), SHELL, {"lr": 0.1})[-1]
    assert found == """echo ${lr} {a,b} {1..3} {} '{"lr": 1}' '{print}' {lr} "${HOME}/0.1" """


def test_names_that_no_parameter_has_are_found_outside_single_quotes() -> None:
    assert unknown_names("a {lr} {lrr} '{print}' {{b}} ${c}", {"lr"}) == ["lrr"]
    assert unknown_names(["a", "{lrr}"], {"lr"}) == ["lrr"]


SWEEP = """
run: {run}
params: {{seed: 1}}
sweep:
  space: {{lr: [0.1, 0.2], name: ["a b"]}}
  metric: loss
  budget: {{trials: 2}}
"""


def test_a_name_that_is_no_parameter_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInput) as refused:
        parse_job_file(SWEEP.format(run="python a.py --lr {lrr} --seed {seed}").encode(), folder="/")
    [mistake] = refused.value.mistakes
    assert mistake.field == "run"
    assert "{lrr}" in mistake.rule
    assert "lr, name, seed" in mistake.rule


def test_a_value_that_is_not_plain_is_refused_beside_a_nested_command() -> None:
    parse_job_file(SWEEP.format(run="python a.py $(date) {lr}").encode(), folder="/")
    with pytest.raises(BadInput, match=r"grus\.params"):
        parse_job_file(SWEEP.format(run="python a.py $(date) {name}").encode(), folder="/")
